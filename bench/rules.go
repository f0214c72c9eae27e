package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

var rulesSection = Section{
	Name:  "rules",
	About: "a changed security group, in the firewall of 1,000 instances",
	Run:   measureRules,
}

// rulesGoal is how long a change of the rules of 1,000 instances may take, in ms.
const rulesGoal = 1000

// forwardGoal is how much the rules of 1,000 instances may cost two others, as the share
// that is left of their speed: the noise of a machine without other work.
const forwardGoal = 0.9

var forwardFigure = regexp.MustCompile(`([\d.]+) ns/(trip|connection)-(\d+)`)

var ruleFigure = regexp.MustCompile(`BenchmarkRules/(\S+)-\d+\s+\d+\s+(\d+) ns/op`)

// measureRules runs the benchmark of the container engine, which writes real tables for
// instances that do not exist: 1,000 real ones do not fit on every machine.
func measureRules(ctx context.Context, r *Report) error {
	if os.Geteuid() != 0 {
		r.Note("skipped: the firewall needs root")
		return nil
	}
	out, err := engineBenchmark(ctx, r, "Rules", "50x")
	if err != nil {
		return err
	}
	found := ruleFigure.FindAllStringSubmatch(out, -1)
	if len(found) == 0 {
		r.Note("skipped: the firewall cannot be written here: %s", out)
		return nil
	}
	names := map[string]string{
		"1_groups":          "group of all spaces changed, mean",
		"1001_groups":       "the same, with a group for each of 1,000 spaces, mean",
		"one_more_instance": "an instance comes and goes, mean",
	}
	for _, f := range found {
		ns, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			return err
		}
		r.Add(Figure{Name: names[f[1]], Value: ns / 1e6, Unit: "ms", Goal: Below(rulesGoal)})
	}
	r.Note("1,000 instances in 1,000 spaces, each with a network policy. A change replaces the whole table in one step, " +
		"so that no packet meets half of it. Packets of existing connections pass at the first rule, however many there are.")
	return measureForwarding(ctx, r)
}

// measureForwarding compares the way between two instances with the rules of 1,000 others
// and without them.
func measureForwarding(ctx context.Context, r *Report) error {
	out, err := engineBenchmark(ctx, r, "Forward", "20x")
	if err != nil {
		return err
	}
	took := map[string]float64{}
	for _, f := range forwardFigure.FindAllStringSubmatch(out, -1) {
		if took[f[2]+f[3]], err = strconv.ParseFloat(f[1], 64); err != nil {
			return err
		}
	}
	for _, kind := range []struct{ key, name string }{{"trip", "round trips between two instances"},
		{"connection", "new connections between two instances"}} {
		few, many := took[kind.key+"2"], took[kind.key+"1000"]
		if few == 0 || many == 0 {
			return fmt.Errorf("no figures in: %s", out)
		}
		r.Add(Figure{
			Name: kind.name + ", rules of 1,000", Value: 1e9 / many, Unit: "/s", Beside: &Beside{Name: "rules of 2",
				Value: 1e9 / few}, Goal: ShareOf(forwardGoal),
		})
	}
	return nil
}

// engineBenchmark runs a benchmark of the container engine and returns what it printed.
func engineBenchmark(ctx context.Context, r *Report, name, rounds string) (string, error) {
	if r.Short {
		rounds = "10x"
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", name, "-benchtime", rounds,
		"./internal/platform/engine/container/...")
	cmd.Dir = filepath.Join(moduleDir(), "..")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}
