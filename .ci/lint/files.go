package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxLines is where a file has more than one noun in it.
const maxLines = 450

// vague names say nothing about what a package owns.
var vague = []string{"util", "utils", "common", "helper", "helpers", "manager", "misc", "types"}

var unfinished = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)

// skipped directories hold nothing of ours.
var skipped = []string{".git", ".tools", "bin", "dist", "testdata", "node_modules"}

// files judges every Go file below root; each complaint is one sentence. A rule
// is switched off for one line by a comment on it: //lint:allow RULE reason.
func files(root string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path != root && slices.Contains(skipped, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		found = append(found, file(name, text)...)
		return nil
	})
	return found, err
}

func file(name string, text []byte) []string {
	var found []string
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", name, err)}
	}
	allowed := map[int]string{} // line → rules
	for _, group := range tree.Comments {
		for _, c := range group.List {
			line := set.Position(c.Pos()).Line
			if rest, ok := strings.CutPrefix(c.Text, "//lint:allow "); ok {
				rule, why, _ := strings.Cut(rest, " ")
				if strings.TrimSpace(why) == "" {
					found = append(found, fmt.Sprintf("%s:%d: lint:allow %s gives no reason", name, line, rule))
				}
				allowed[line] = rule
			}
			for i, text := range strings.Split(c.Text, "\n") {
				if word := unfinished.FindString(text); word != "" {
					found = append(found, fmt.Sprintf("%s:%d: %s: finish it, or file it where it will be seen", name, line+i, word))
				}
			}
		}
	}
	if lines := strings.Count(string(text), "\n"); lines > maxLines && !ast.IsGenerated(tree) {
		found = append(found, fmt.Sprintf("%s: %d lines, more than %d: split it by its nouns", name, lines, maxLines))
	}
	if p := strings.TrimSuffix(tree.Name.Name, "_test"); slices.Contains(vague, p) {
		found = append(found, fmt.Sprintf("%s: package %s says nothing about what it owns", name, p))
	}
	if strings.HasSuffix(name, "_test.go") && !imports(tree, "testing/synctest") && imports(tree, "time") {
		ast.Inspect(tree, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok || call.Sel.Name != "Sleep" {
				return true
			}
			if x, ok := call.X.(*ast.Ident); ok && x.Name == "time" {
				if line := set.Position(n.Pos()).Line; allowed[line] != "sleep" {
					found = append(found, fmt.Sprintf("%s:%d: a test sleeps on time: wait for the event, or use testing/synctest", name, line))
				}
			}
			return true
		})
	}
	return found
}

func imports(tree *ast.File, path string) bool {
	return slices.ContainsFunc(tree.Imports, func(i *ast.ImportSpec) bool {
		p, err := strconv.Unquote(i.Path.Value)
		return err == nil && p == path
	})
}
