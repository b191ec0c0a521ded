// Command coverage joins coverage profiles and holds every package to a floor.
//
// `go test -coverpkg=./...` writes each block once per test binary, and its own
// per-package figures then say little: here a block counts as covered when any
// test, or any process that a test started, ran it.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, listPackages))
}

// run does all of main's work. list returns the module's path and its packages
// with statements, so that a package no test touches counts as 0 %.
func run(args []string, stdout, stderr io.Writer, list func() (string, []string, error)) int {
	flags := flag.NewFlagSet("coverage", flag.ContinueOnError)
	flags.SetOutput(stderr)
	floor := flags.Float64("floor", 85, "lowest allowed `percent` of each package")
	exempt := flags.String("exempt", "", "`directories`, with commas between, that are shown but not held to the floor")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	module, packages, err := list()
	if err != nil {
		fmt.Fprintln(stderr, "coverage:", err)
		return 1
	}
	blocks := map[string]block{}
	for _, name := range flags.Args() {
		if err := readProfile(name, blocks); err != nil {
			fmt.Fprintln(stderr, "coverage:", err)
			return 1
		}
	}
	return report(stdout, module, packages, blocks, *floor, strings.Split(*exempt, ","))
}

// block is one run of statements; the map's key is its file and span.
type block struct {
	statements int
	covered    bool
}

func readProfile(name string, blocks map[string]block) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "mode: ") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return fmt.Errorf("read %s: %q is no line of a profile", name, line)
		}
		statements, err := strconv.Atoi(fields[1])
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		b := blocks[fields[0]]
		b.statements = statements
		b.covered = b.covered || fields[2] != "0"
		blocks[fields[0]] = b
	}
	return lines.Err()
}

func report(w io.Writer, module string, packages []string, blocks map[string]block, floor float64, exempt []string) int {
	type sum struct{ all, covered int }
	sums := map[string]sum{}
	for _, p := range packages {
		sums[p] = sum{}
	}
	for key, b := range blocks {
		file, _, _ := strings.Cut(key, ":")
		s := sums[path.Dir(file)]
		s.all += b.statements
		if b.covered {
			s.covered += b.statements
		}
		sums[path.Dir(file)] = s
	}
	names := make([]string, 0, len(sums))
	for name := range sums {
		names = append(names, name)
	}
	slices.Sort(names)
	low := 0
	fmt.Fprintln(w, "coverage of each package from all tests:")
	for _, name := range names {
		s := sums[name]
		percent := 0.0
		if s.all > 0 {
			percent = 100 * float64(s.covered) / float64(s.all)
		}
		short := strings.TrimPrefix(strings.TrimPrefix(name, module), "/")
		note := ""
		switch {
		case slices.ContainsFunc(exempt, func(dir string) bool {
			return dir != "" && (short == dir || strings.HasPrefix(short, dir+"/"))
		}):
			note = "  (not held to the floor)"
		case percent < floor:
			low++
			note = fmt.Sprintf("  BELOW %g %%", floor)
		}
		fmt.Fprintf(w, "%6.1f %%  %s%s\n", percent, short, note)
	}
	if low > 0 {
		fmt.Fprintf(w, "%d package(s) below %g %%: write tests that assert what the uncovered lines do (go tool cover -html=coverage.out)\n", low, floor)
		return 1
	}
	return 0
}

// listPackages asks the go command; a package has statements when a function
// in it has a body, which its text tells well enough.
func listPackages() (module string, packages []string, err error) {
	out, err := exec.Command("go", "list", "-m").Output()
	if err != nil {
		return "", nil, fmt.Errorf("go list -m: %w", err)
	}
	module = strings.TrimSpace(string(out))
	out, err = exec.Command("go", "list", "-f", `{{.ImportPath}}{{"\t"}}{{.Dir}}{{"\t"}}{{join .GoFiles " "}}`, "./...").Output()
	if err != nil {
		return "", nil, fmt.Errorf("go list ./...: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		for file := range strings.FieldsSeq(fields[2]) {
			text, err := os.ReadFile(path.Join(fields[1], file))
			if err != nil {
				return "", nil, err
			}
			if strings.Contains(string(text), "\nfunc ") {
				packages = append(packages, fields[0])
				break
			}
		}
	}
	return module, packages, nil
}
