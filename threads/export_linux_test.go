package threads

// HolderIn is holderIn.
var HolderIn = holderIn
