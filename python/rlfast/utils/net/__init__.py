"""Networks with the interface that policies call: ``net(obs, state=None, info={}) -> (output, state)``."""
