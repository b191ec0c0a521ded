package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
)

// modelsOptions are the flags of models.
type modelsOptions struct {
	work string
	json bool
}

func newModelsCommand(env *environment) *cobra.Command {
	o := &modelsOptions{}
	c := &cobra.Command{
		Use:     "models",
		Short:   "List the models that Codex offers",
		Long:    "List the models that the running child offers. `run --model` takes the MODEL column.\n" + exitHelp,
		Example: "  codex-supervisor models",
		Args:    exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return runModels(c.Context(), o, env) },
	}
	addWorkFlag(c, &o.work)
	c.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return c
}

func runModels(ctx context.Context, o *modelsOptions, env *environment) error {
	client, dir, err := env.service(ctx, o.work)
	if err != nil {
		return err
	}
	m, err := client.Models(ctx, dir)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(env.stdout, m)
	}
	var rows [][]string
	for _, one := range m.Models {
		if one.Hidden {
			continue
		}
		mark := ""
		if one.Default {
			mark = "default"
		}
		rows = append(rows, []string{shown(one.Model, 30), mark, shown(one.DefaultEffort, 10), shown(strings.Join(one.Efforts, ","), 40)})
	}
	table(env.stdout, "", "MODEL |  | EFFORT | EFFORTS", rows)
	return nil
}
