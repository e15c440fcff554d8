//! DNN_VM_GE_LOCAL: operators without a task.
