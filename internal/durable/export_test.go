package durable

var (
	// RenameNoReplace is the step for file systems without hard links.
	RenameNoReplace = renameNoReplace
	// CannotLink decides that it is one.
	CannotLink = cannotLink
	// Write takes a temporary file to its name with any step.
	Write = write
)
