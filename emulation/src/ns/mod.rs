//! Emulab NS files: a small safe Tcl evaluator and the objects of a simulator.
