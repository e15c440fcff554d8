//! Two fusions as a pass plugin: convolution with batch norm and activation, and GELU.
