//! `Act`: the activations that a matrix product or convolution can apply to its result.
use crate::simd::math;
use crate::simd::tanh::tanh_in_place;

/// A function of one single-precision number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Act {
    /// The identity.
    #[default]
    None,
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, low), high)`.
    Clip(f32, f32),
    /// `x` for `x >= 0`, `slope * x` for `x < 0`.
    LeakyRelu(f32),
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// Exact GELU.
    Gelu,
    /// The tanh approximation of GELU.
    GeluTanh,
    /// `x * sigmoid(x)`.
    Silu,
    /// `max(0, min(1, alpha * x + beta))`.
    HardSigmoid(f32, f32),
    /// `x * max(0, min(1, x / 6 + 1 / 2))`.
    HardSwish,
    /// `x` for `x >= 0`, `alpha (e^x - 1)` for `x < 0`.
    Elu(f32),
}

/// `max(x, low)`; NaN stays NaN.
#[inline(always)]
pub fn at_least(x: f32, low: f32) -> f32 {
    if x < low { low } else { x }
}

/// `min(x, high)`; NaN stays NaN.
#[inline(always)]
pub fn at_most(x: f32, high: f32) -> f32 {
    if x > high { high } else { x }
}

/// A function of one number for which loops are compiled separately.
pub trait Map: Copy {
    /// The value for one number. Implementations are `#[inline(always)]`.
    fn at(self, x: f32) -> f32;
}

macro_rules! maps {
    ($($(#[$meta:meta])* $name:ident $(($($field:ident),+))? = |$x:ident| $e:expr;)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name $(($(pub maps!(@ty $field)),+))?;
        impl Map for $name {
            #[inline(always)]
            fn at(self, $x: f32) -> f32 {
                $(let $name($($field),+) = self;)?
                $e
            }
        }
    )*};
    (@ty $f:ident) => { f32 };
}

maps! {
    /// The identity.
    Same = |x| x;
    /// `max(x, 0)`.
    Relu = |x| at_least(x, 0.0);
    /// `min(max(x, low), high)`.
    Clip(low, high) = |x| at_most(at_least(x, low), high);
    /// `x` for `x >= 0`, `slope * x` for `x < 0`.
    LeakyRelu(slope) = |x| if x < 0.0 { slope * x } else { x };
    /// Logistic function.
    Sigmoid = |x| math::sigmoid(x);
    /// Hyperbolic tangent.
    Tanh = |x| math::tanh(x);
    /// Exact GELU.
    Gelu = |x| math::gelu(x);
    /// The tanh approximation of GELU.
    GeluTanh = |x| math::gelu_tanh(x);
    /// `x * sigmoid(x)`.
    Silu = |x| math::silu(x);
    /// `max(0, min(1, alpha * x + beta))`.
    HardSigmoid(alpha, beta) = |x| at_most(at_least(alpha.mul_add(x, beta), 0.0), 1.0);
    /// `x * max(0, min(1, x / 6 + 1 / 2))`.
    HardSwish = |x| x * at_most(at_least(x.mul_add(1.0 / 6.0, 0.5), 0.0), 1.0);
    /// `x` for `x >= 0`, `alpha (e^x - 1)` for `x < 0`.
    Elu(alpha) = |x| if x < 0.0 { alpha * math::expm1(x) } else { x };
}

crate::multiversion! {
    /// `data[i] = map(data[i])`.
    pub fn map_in_place<M: Map>(map: M, data: &mut [f32]) {
        for v in data.iter_mut() {
            *v = map.at(*v);
        }
    }
}

crate::multiversion! {
    /// `dst[i] = map(src[i])`, up to the shorter length of the two.
    pub fn map_to<M: Map>(map: M, src: &[f32], dst: &mut [f32]) {
        for (d, s) in dst.iter_mut().zip(src) {
            *d = map.at(*s);
        }
    }
}

impl Act {
    /// Applies the activation to every number.
    pub fn apply(self, data: &mut [f32]) {
        match self {
            Act::None => {}
            Act::Relu => map_in_place(Relu, data),
            Act::Clip(low, high) => map_in_place(Clip(low, high), data),
            Act::LeakyRelu(slope) => map_in_place(LeakyRelu(slope), data),
            Act::Sigmoid => map_in_place(Sigmoid, data),
            Act::Tanh => tanh_in_place(data),
            Act::Gelu => map_in_place(Gelu, data),
            Act::GeluTanh => map_in_place(GeluTanh, data),
            Act::Silu => map_in_place(Silu, data),
            Act::HardSigmoid(alpha, beta) => map_in_place(HardSigmoid(alpha, beta), data),
            Act::HardSwish => map_in_place(HardSwish, data),
            Act::Elu(alpha) => map_in_place(Elu(alpha), data),
        }
    }

    /// The activation as a code and two parameters, as tiling data stores it.
    pub fn encode(self) -> (u32, f32, f32) {
        match self {
            Act::None => (0, 0.0, 0.0),
            Act::Relu => (1, 0.0, 0.0),
            Act::Clip(a, b) => (2, a, b),
            Act::LeakyRelu(a) => (3, a, 0.0),
            Act::Sigmoid => (4, 0.0, 0.0),
            Act::Tanh => (5, 0.0, 0.0),
            Act::Gelu => (6, 0.0, 0.0),
            Act::GeluTanh => (7, 0.0, 0.0),
            Act::Silu => (8, 0.0, 0.0),
            Act::HardSigmoid(a, b) => (9, a, b),
            Act::HardSwish => (10, 0.0, 0.0),
            Act::Elu(a) => (11, a, 0.0),
        }
    }

    /// The activation for a code and two parameters; `None` if the code is unknown.
    pub fn decode(code: u32, a: f32, b: f32) -> Option<Act> {
        Some(match code {
            0 => Act::None,
            1 => Act::Relu,
            2 => Act::Clip(a, b),
            3 => Act::LeakyRelu(a),
            4 => Act::Sigmoid,
            5 => Act::Tanh,
            6 => Act::Gelu,
            7 => Act::GeluTanh,
            8 => Act::Silu,
            9 => Act::HardSigmoid(a, b),
            10 => Act::HardSwish,
            11 => Act::Elu(a),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};

    const ALL: [Act; 12] = [
        Act::None,
        Act::Relu,
        Act::Clip(-0.5, 6.0),
        Act::LeakyRelu(0.1),
        Act::Sigmoid,
        Act::Tanh,
        Act::Gelu,
        Act::GeluTanh,
        Act::Silu,
        Act::HardSigmoid(0.2, 0.5),
        Act::HardSwish,
        Act::Elu(1.5),
    ];

    #[test]
    fn every_level_gives_the_same_bits() {
        let data: Vec<f32> = (-300..300).map(|i| i as f32 * 0.037).chain([f32::NAN, f32::INFINITY, -0.0]).collect();
        for act in ALL {
            let of = |level| {
                let mut v = data.clone();
                with_level(level, || act.apply(&mut v));
                v.iter().map(|x| if x.is_nan() { 0 } else { x.to_bits() }).collect::<Vec<_>>()
            };
            let want = of(Level::Scalar);
            for level in Level::available() {
                assert_eq!(of(level), want, "{act:?} {level:?}");
            }
        }
    }

    #[test]
    fn codes_go_there_and_back() {
        for act in ALL {
            let (c, a, b) = act.encode();
            assert_eq!(Act::decode(c, a, b), Some(act));
        }
        assert_eq!(Act::decode(12, 0.0, 0.0), None);
    }

    #[test]
    fn values_at_the_corners() {
        let at = |act: Act, x: f32| {
            let mut v = [x];
            act.apply(&mut v);
            v[0]
        };
        assert_eq!(at(Act::Relu, -3.0), 0.0);
        assert!(at(Act::Relu, f32::NAN).is_nan());
        assert_eq!(at(Act::Clip(0.0, 6.0), 9.0), 6.0);
        assert_eq!(at(Act::LeakyRelu(0.25), -4.0), -1.0);
        assert_eq!(at(Act::HardSwish, 3.0), 3.0);
        assert_eq!(at(Act::HardSigmoid(0.2, 0.5), -2.5), 0.0);
        assert!((at(Act::Elu(2.0), -1.0) - 2.0 * (-1f32).exp_m1()).abs() < 1e-6);
    }
}
