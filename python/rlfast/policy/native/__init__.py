"""Acting without torch: networks of linear layers and usual activations, computed in Rust from the tensors in place."""
