package main

import (
	"regexp"

	"github.com/spf13/cobra"
)

var flagNames = regexp.MustCompile(`--([a-z][a-z-]*)`)

// nearestFlag is the flag of c that name was probably meant to be, or "".
func nearestFlag(c *cobra.Command, name string) string {
	best, found := 3, ""
	for _, m := range flagNames.FindAllStringSubmatch(c.Flags().FlagUsages(), -1) {
		if d := distance(name, m[1]); d < best {
			best, found = d, m[1]
		}
	}
	return found
}

// distance is how many letters have to be added, dropped or replaced.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
