//! The kernels, in one folder per family. Each file ends with its rows of the operator table.
pub mod attention;
pub mod conv;
pub mod cluster;
pub mod fused;
pub mod image;
pub mod index;
pub mod loss;
pub mod math;
pub mod matrix;
pub mod norm;
pub mod pool;
pub mod quant;
pub mod random;
pub mod reduce;
pub mod rnn;
pub mod shape;
pub mod signal;
pub mod text;

use crate::op::Op;

/// The operator rows of all files.
pub const FAMILIES: &[&[Op]] = &[
    math::unary::PLAIN_OPS,
    math::unary::NUMBER_OPS,
    math::unary::OPS,
    math::arith::OPS,
    math::power::OPS,
    math::bits::OPS,
    math::compare::OPS,
    math::cast::OPS,
    math::select::OPS,
    math::step::OPS,
    math::sum::OPS,
    matrix::matmul::OPS,
    matrix::bytes::OPS,
    conv::direct::OPS,
    conv::deform::OPS,
    cluster::OPS,
    fused::OPS,
    pool::window::OPS,
    pool::global::OPS,
    norm::softmax::OPS,
    norm::axis::OPS,
    norm::lp::OPS,
    norm::layer::OPS,
    norm::channel::OPS,
    reduce::fold::OPS,
    shape::view::OPS,
    shape::transpose::OPS,
    shape::trans_data::OPS,
    shape::join::OPS,
    shape::slice::OPS,
    shape::stretch::OPS,
    shape::make::OPS,
    index::gather::OPS,
    index::scatter::OPS,
    index::choose::OPS,
    index::nms::OPS,
    reduce::search::OPS,
    reduce::top::OPS,
    reduce::cumulative::OPS,
    matrix::einsum::OPS,
    quant::OPS,
    rnn::OPS,
    attention::OPS,
    attention::linear::OPS,
    signal::OPS,
    loss::OPS,
    image::resize::OPS,
    image::col2im::OPS,
    image::grid::OPS,
    image::roi::OPS,
    random::OPS,
    text::concat::OPS,
    text::full_match::OPS,
    text::normalizer::OPS,
    text::split::OPS,
    text::tf_idf::OPS,
    text::tokenize::OPS,
];
