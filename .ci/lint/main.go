// Command lint holds the house to its rules: who may import whom, and a few
// about files that no linter at hand knows. It stands in for depguard, whose
// home, golangci-lint, builds for five minutes on two cores.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() { os.Exit(run(".", os.Stdout, os.Stderr)) }

func run(root string, stdout, stderr io.Writer) int {
	packages, err := list(root)
	if err != nil {
		fmt.Fprintln(stderr, "lint:", err)
		return 1
	}
	found := layers(packages)
	more, err := files(root)
	if err != nil {
		fmt.Fprintln(stderr, "lint:", err)
		return 1
	}
	found = append(found, more...)
	for _, complaint := range found {
		fmt.Fprintln(stderr, complaint)
	}
	if len(found) > 0 {
		fmt.Fprintf(stderr, "lint: %d complaint(s)\n", len(found))
		return 1
	}
	fmt.Fprintf(stdout, "%d packages keep to their floors\n", len(packages)/2)
	return 0
}
