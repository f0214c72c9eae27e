package actions_test

import (
	"fmt"
	"strings"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// A resource has a limited number of labels and annotations; one that has more already can
// lose some.
func TestNumberOfLabels(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		have, add, remove int
		ok                bool
	}{
		"up to the limit":          {0, 50, 0, true},
		"too many at once":         {0, 51, 0, false},
		"one too many":             {50, 1, 0, false},
		"one for another":          {50, 1, 1, true},
		"fewer of too many":        {60, 0, 5, true},
		"changes of too many":      {60, 5, 5, true},
		"more than already is too": {60, 5, 4, false},
	} {
		m := platform.Metadata{Labels: map[string]string{}}
		for i := range tc.have {
			m.Labels[fmt.Sprint("old", i)] = "x"
		}
		patch := &actions.MetadataPatch{Labels: map[string]*string{}}
		value := "y"
		for i := range tc.add {
			patch.Labels[fmt.Sprint("new", i)] = &value
		}
		for i := range tc.remove {
			patch.Labels[fmt.Sprint("old", i)] = nil
		}
		err := patch.Apply(&m)
		if (err == nil) != tc.ok || err != nil && !strings.Contains(err.Error(), "would exceed maximum of 50") {
			t.Errorf("%s: %v, want success: %t", name, err, tc.ok)
		}
	}
	many := map[string]*string{}
	value := "y"
	for i := range 201 {
		many[fmt.Sprint("a", i)] = &value
	}
	if err := (&actions.MetadataPatch{Annotations: many}).Apply(new(platform.Metadata)); err == nil {
		t.Error("201 annotations are accepted, want 200 at most")
	}
}
