//go:build race

package manifest_test

import "flag"

// The race detector makes every case slow and finds nothing in these: they are
// drawn one after another. -rapid.checks says otherwise.
func init() {
	for name, value := range map[string]string{"rapid.checks": "25", "rapid.steps": "20"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
}
