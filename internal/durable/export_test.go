package durable

// RenameNoReplace is the step for file systems without hard links.
var RenameNoReplace = renameNoReplace
