package main

import (
	"fmt"

	"github.com/jessevdk/go-flags"

	"ingot/internal/base/suggest"
)

// unknownFlag reports an unknown flag and suggests a similar one.
func unknownFlag(name string, all []*flags.Option) string {
	if len([]rune(name)) == 1 {
		return fmt.Sprintf("unknown flag -%s", name)
	}
	var names []string
	for _, o := range all {
		names = append(names, o.LongName)
	}
	if near := suggest.Closest(name, names); near != "" {
		return fmt.Sprintf("unknown flag --%s; did you mean --%s?", name, near)
	}
	return fmt.Sprintf("unknown flag --%s", name)
}
