package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Cost returns how many schemas are applied to a value in the worst case: a reference counts as
// much as what it refers to, so that a small schema whose references double at each level is
// known as the large one it is. References may lead to $defs or definitions of the same schema,
// and not back to themselves.
func Cost(text []byte, most int) (int, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	var root any
	if err := d.Decode(&root); err != nil {
		return 0, err
	}
	c := counter{root: root, known: map[string]int{}, most: most}
	return c.cost(root)
}

type counter struct {
	root  any
	known map[string]int // by reference; being is one that is being counted
	most  int
}

// being is more than any cost.
const being = -1

func (c *counter) cost(node any) (int, error) {
	total := 0
	add := func(n int, err error) error {
		if total += n; err == nil && total > c.most {
			err = fmt.Errorf("it is too large: with its references it has more than %d parts", c.most)
		}
		return err
	}
	switch node := node.(type) {
	case []any:
		total++
		for _, item := range node {
			if err := add(c.cost(item)); err != nil {
				return 0, err
			}
		}
	case map[string]any:
		total++
		for _, name := range slices.Sorted(maps.Keys(node)) {
			var err error
			switch name {
			case "$defs", "definitions", "enum", "const", "examples", "default":
				continue // counted where they are referred to, or no schemas
			case "$dynamicRef", "$recursiveRef":
				err = fmt.Errorf("%s is not allowed: use $ref", name)
			case "$ref":
				err = add(c.referred(node[name]))
			case "properties", "patternProperties", "dependentSchemas", "dependencies":
				// Their members have names of the schema's author, also those above.
				if members, ok := node[name].(map[string]any); ok {
					err = add(c.cost(slices.Collect(maps.Values(members))))
				}
			default:
				err = add(c.cost(node[name]))
			}
			if err != nil {
				return 0, err
			}
		}
	}
	return total, nil
}

// referred returns the cost of what a reference leads to.
func (c *counter) referred(to any) (int, error) {
	name, _ := to.(string)
	path, ok := strings.CutPrefix(name, "#/")
	parts := strings.Split(path, "/")
	if !ok || len(parts) != 2 || parts[0] != "$defs" && parts[0] != "definitions" {
		return 0, fmt.Errorf("the reference %q must be of the form #/$defs/NAME", name)
	}
	switch known, ok := c.known[name]; {
	case ok && known == being:
		return 0, fmt.Errorf("the reference %q leads back to itself", name)
	case ok:
		return known, nil
	}
	root, _ := c.root.(map[string]any)
	group, _ := root[parts[0]].(map[string]any)
	target, ok := group[strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[1])]
	if !ok {
		return 0, errors.New("there is no " + name)
	}
	c.known[name] = being
	n, err := c.cost(target)
	c.known[name] = n
	return n, err
}
