//! What the emulator itself can do: accuracy, rate, capacity, set-up.
