//! Files of policies: safetensors, with the description of the policy under `policy` in the header.
//!
//! They may be from strangers. Whatever is wrong is an error of one sentence before anything is computed, and reading takes
//! no more memory than a few times the file.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use super::network::{MOST, Network, Node, Part};
use super::policy::{Bound, BoundedBy, Decision, Normalization, ObservedArray, Policy, Preparation};
use super::weights::Weights;
use crate::error::{Error, Result, value_error};
use crate::regular;
use crate::vectors::with_room;

/// The version of the format that this module reads.
const VERSION: &str = "1";
/// The most bytes of a file.
const LARGEST: u64 = 1 << 32;

impl Policy {
    /// Opens a file of `rlfast export`.
    ///
    /// # Errors
    /// `Value` for a file that is no policy, or one of a newer version, `Io` when it cannot be read, `Room` without memory.
    pub fn open(path: &Path) -> Result<Self> {
        let context = || path.display().to_string();
        let file = regular::open(path)?;
        let len = file.metadata().map_err(Error::io(context()))?.len();
        if len > LARGEST {
            return value_error!("{} is no policy of rlfast: it has {len} bytes", context());
        }
        let mut bytes = with_room(len as usize)?;
        file.take(len).read_to_end(&mut bytes).map_err(Error::io(context()))?;
        Self::from_bytes(&bytes).map_err(|error| match error {
            Error::Value(why) => Error::Value(format!("{} is no policy of rlfast: {why}", context())),
            other => other,
        })
    }

    /// Returns the policy in the bytes of a file.
    ///
    /// # Errors
    /// See [`Self::open`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let wrong = |error| Error::Value(format!("it is no safetensors file ({error})"));
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(wrong)?;
        let given = header.metadata().as_ref();
        let (Some(text), version) =
            (given.and_then(|given| given.get("policy")), given.and_then(|given| given.get("version")))
        else {
            return value_error!("its header has no `policy`");
        };
        if version.map(String::as_str) != Some(VERSION) {
            let version = version.map_or("none", String::as_str);
            return value_error!(
                "its version is {version}, and this rlfast reads {VERSION}: install the rlfast that wrote it"
            );
        }
        let description = serde_json::from_str(text)
            .map_err(|error| Error::Value(format!("the description in its header is no JSON ({error})")))?;
        let tensors = SafeTensors::deserialize(bytes).map_err(wrong)?;
        Reader::new(&tensors)?.policy(text, &description)
    }
}

/// The tensors of a file.
#[derive(Default)]
struct Reader {
    floats: HashMap<String, (Vec<f32>, Option<usize>)>,
    doubles: HashMap<String, Vec<f64>>,
    places: HashMap<String, Vec<usize>>,
    /// The places of all nodes, which are copied for each node.
    placed: usize,
}

impl Reader {
    fn new(tensors: &SafeTensors<'_>) -> Result<Self> {
        let mut read = Self::default();
        for (name, tensor) in tensors.iter() {
            let (name, data) = (name.to_owned(), tensor.data());
            match tensor.dtype() {
                Dtype::F32 => {
                    let rows = if let &[rows, _] = tensor.shape() { Some(rows) } else { None };
                    read.floats.insert(name, (numbers(data, f32::from_le_bytes)?, rows));
                }
                Dtype::F64 => {
                    read.doubles.insert(name, numbers(data, f64::from_le_bytes)?);
                }
                Dtype::I64 => {
                    let place = |bytes| usize::try_from(i64::from_le_bytes(bytes)).unwrap_or(usize::MAX);
                    read.places.insert(name, numbers(data, place)?);
                }
                other => return value_error!("the tensor {name:.80} is of {other:?}"),
            }
        }
        Ok(read)
    }

    fn policy(mut self, text: &str, description: &Value) -> Result<Policy> {
        let observation = field(description, "observation")?;
        let arrays = list(field(observation, "arrays")?)?.iter().map(observed).collect::<Result<Vec<_>>>()?;
        let mut raw = 0_usize;
        for array in &arrays {
            raw = raw.saturating_add(size(&array.shape)?);
        }
        if raw == 0 || raw > MOST || (arrays.len() > 1 && arrays.iter().any(|array| array.keys.is_empty())) {
            return value_error!("an observation is an array, or arrays with keys, and not too large");
        }
        let places = match field(observation, "places")? {
            Value::Null => None,
            name => Some(self.places_of(name)?.clone()),
        };
        if let Some(place) = places.iter().flatten().find(|&&place| place >= raw) {
            return value_error!("it picks the number {place} of {raw} of an observation");
        }
        let inputs = places.as_ref().map_or(raw, Vec::len);
        let scales = list(field(observation, "scales")?)?.iter().map(|scale| self.normalization(scale, inputs));
        let preparation = Preparation { places, scales: scales.collect::<Result<_>>()? };

        let nodes = list(field(description, "nodes")?)?;
        let nodes = nodes.iter().map(|node| self.node(node)).collect::<Result<_>>()?;
        let state = match field(description, "state")? {
            Value::Null => None,
            state => Some((whole(field(state, "slot")?)?, whole(field(state, "size")?)?)),
        };
        let of_state = state.map_or(0, |(_, size)| size);
        let network = Network::new(inputs.saturating_add(of_state), nodes)?.frozen()?;
        if let Some((slot, size)) = state
            && (network.width(slot) != Some(size) || size == 0)
        {
            return value_error!("its hidden state has {size} numbers, which are not those of slot {slot}");
        }
        let action = field(description, "action")?;
        let action_shape = lengths(field(action, "shape")?)?;
        let decision = self.decision(action, &network, size(&action_shape)?)?;
        let random = flag(description, "random")?;
        if random
            && matches!(
                decision,
                Decision::Discrete { logits: false, .. } | Decision::Continuous { deviation: None, .. }
            )
        {
            return value_error!("its actions are drawn from no distribution");
        }
        let kept = self.floats.into_values().map(|(numbers, _)| numbers).collect();
        let description = text.to_owned();
        Ok(Policy { network, preparation, decision, arrays, action_shape, state, random, description, _kept: kept })
    }

    fn normalization(&self, scale: &Value, inputs: usize) -> Result<Normalization> {
        let numbers = |name| self.doubles_of(field(scale, name)?, inputs);
        let limit = match field(scale, "limit")? {
            Value::Null => f64::INFINITY,
            limit => number(limit)?,
        };
        if limit.is_nan() || limit <= 0.0 {
            return value_error!("observations are bounded by {limit}");
        }
        Ok(Normalization { mean: numbers("mean")?, deviation: numbers("deviation")?, limit })
    }

    fn node(&mut self, node: &Value) -> Result<Node> {
        let parts = list(node)?;
        let Some((Value::String(name), parts)) = parts.split_first() else {
            return value_error!("a node begins with its name");
        };
        let parts = parts.iter().map(|part| self.part(part)).collect::<Result<Vec<_>>>()?;
        Node::described(name, &parts).map_err(|error| Error::Value(format!("{error:.200}")))
    }

    fn part(&mut self, part: &Value) -> Result<Part> {
        Ok(match part {
            Value::Null => Part::Missing,
            Value::Bool(flag) => Part::Number(f64::from(u8::from(*flag))),
            Value::Number(_) => Part::Number(number(part)?),
            Value::String(name) if name == "inf" => Part::Number(f64::INFINITY),
            Value::String(name) if name == "-inf" => Part::Number(f64::NEG_INFINITY),
            Value::String(name) => match self.floats.get(name) {
                // SAFETY: the policy keeps the numbers, which never move.
                Some((floats, rows)) => match unsafe { Weights::new(floats.as_ptr(), floats.len()) } {
                    Some(weights) => Part::Weights(weights, *rows),
                    None => return value_error!("the tensor {name:.80} cannot be read"),
                },
                None => {
                    let places = self.places_of(part)?.clone();
                    self.placed = self.placed.saturating_add(places.len());
                    if self.placed > MOST {
                        return value_error!("its nodes have more than {MOST} places");
                    }
                    Part::Places(places)
                }
            },
            _ => return value_error!("the part of a node is {}", short(part)),
        })
    }

    fn places_of(&self, name: &Value) -> Result<&Vec<usize>> {
        let found = name.as_str().and_then(|name| self.places.get(name));
        found.map_or_else(|| value_error!("there is no tensor {}", short(name)), Ok)
    }

    fn doubles_of(&self, name: &Value, count: usize) -> Result<Vec<f64>> {
        match name.as_str().and_then(|name| self.doubles.get(name)) {
            Some(found) if found.len() == count => Ok(found.clone()),
            Some(found) => value_error!("the tensor {} has {} numbers, not {count}", short(name), found.len()),
            None => value_error!("there is no tensor {}", short(name)),
        }
    }

    fn decision(&self, action: &Value, network: &Network, count: usize) -> Result<Decision> {
        let slot = |name| {
            let slot = whole(field(action, name)?)?;
            network.width(slot).map_or_else(|| value_error!("there is no slot {slot}"), |width| Ok((slot, width)))
        };
        match field(action, "type")?.as_str() {
            Some("discrete") => {
                let (slot, width) = slot("slot")?;
                let sizes = lengths(field(action, "sizes")?)?;
                let starts = list(field(action, "starts")?)?.iter().map(Value::as_i64).collect::<Option<Vec<_>>>();
                let Some(starts) = starts.filter(|starts| starts.len() == sizes.len() && sizes.len() == count) else {
                    return value_error!("each of its {count} actions needs a size and a start");
                };
                let all = sizes.iter().fold(0_usize, |sum, &size| sum.saturating_add(size));
                if sizes.contains(&0) || all != width {
                    return value_error!("{all} actions are chosen from {width} numbers");
                }
                Ok(Decision::Discrete { slot, sizes, starts, logits: flag(action, "logits")? })
            }
            Some("continuous") => {
                let (mean, width) = slot("mean")?;
                let deviation = match field(action, "deviation")? {
                    Value::Null => None,
                    _ => Some(slot("deviation")?),
                };
                if width != count || deviation.is_some_and(|(_, other)| other != width) {
                    return value_error!("its actions have {count} numbers, and the network computes {width}");
                }
                let (squashed, bound) = (flag(action, "squashed")?, self.bound(action, width)?);
                Ok(Decision::Continuous { mean, deviation: deviation.map(|(slot, _)| slot), squashed, bound })
            }
            _ => value_error!("its actions are neither discrete nor continuous"),
        }
    }

    fn bound(&self, action: &Value, width: usize) -> Result<Bound> {
        let by = match field(action, "bound")? {
            Value::Null => BoundedBy::Nothing,
            Value::String(name) if name == "clip" => BoundedBy::Clip,
            Value::String(name) if name == "tanh" => BoundedBy::Tanh,
            other => return value_error!("actions are bounded by {}", short(other)),
        };
        let range = match field(action, "low")? {
            Value::Null => None,
            low => Some((self.doubles_of(low, width)?, self.doubles_of(field(action, "high")?, width)?)),
        };
        let stretched = flag(action, "stretched")?;
        if let Some((low, high)) = &range
            && !low.iter().zip(high).all(|(low, high)| low <= high)
        {
            return value_error!("the least actions are above the greatest");
        }
        if stretched && range.is_none() {
            return value_error!("its actions are stretched to no range");
        }
        let double = match field(action, "dtype")?.as_str() {
            Some("float32") => false,
            Some("float64") => true,
            _ => return value_error!("continuous actions are float32 or float64"),
        };
        Ok(Bound { by, stretched, range, double })
    }
}

/// The numbers of a tensor.
fn numbers<T, const N: usize>(bytes: &[u8], from: impl Fn([u8; N]) -> T) -> Result<Vec<T>> {
    let (chunks, _) = bytes.as_chunks::<N>();
    let mut numbers = with_room(chunks.len())?;
    numbers.extend(chunks.iter().map(|&chunk| from(chunk)));
    Ok(numbers)
}

/// The beginning of a value, for an error.
fn short(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}

fn field<'a>(object: &'a Value, name: &str) -> Result<&'a Value> {
    object.get(name).map_or_else(|| value_error!("its description has no `{name}`"), Ok)
}

fn list(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().map_or_else(|| value_error!("{} is no list", short(value)), Ok)
}

fn flag(object: &Value, name: &str) -> Result<bool> {
    field(object, name)?.as_bool().map_or_else(|| value_error!("`{name}` is neither true nor false"), Ok)
}

fn number(value: &Value) -> Result<f64> {
    value.as_f64().map_or_else(|| value_error!("{} is no number", short(value)), Ok)
}

fn whole(value: &Value) -> Result<usize> {
    let found = value.as_u64().and_then(|number| usize::try_from(number).ok());
    found.map_or_else(|| value_error!("{} is no whole number", short(value)), Ok)
}

fn lengths(value: &Value) -> Result<Vec<usize>> {
    list(value)?.iter().map(whole).collect()
}

/// An array of an observation.
fn observed(array: &Value) -> Result<ObservedArray> {
    let text = |key: &Value| match key {
        Value::String(key) => Ok(key.clone()),
        other => value_error!("a key is {}", short(other)),
    };
    let keys = list(field(array, "keys")?)?.iter().map(text).collect::<Result<_>>()?;
    Ok(ObservedArray { keys, shape: lengths(field(array, "shape")?)? })
}

/// The numbers of an array of a shape.
fn size(shape: &[usize]) -> Result<usize> {
    let size = shape.iter().try_fold(1_usize, |size, &length| size.checked_mul(length));
    match size.filter(|&size| size > 0 && size <= MOST && shape.len() <= 32) {
        Some(size) => Ok(size),
        None => value_error!("it has arrays of {} axes that are too large, or empty", shape.len()),
    }
}
