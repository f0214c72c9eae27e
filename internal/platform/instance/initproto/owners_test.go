package initproto

import (
	"maps"
	"testing"
)

func TestOwners(t *testing.T) {
	t.Parallel()
	got := Owners([]int{10, 20, 0}, map[int]Lineage{
		1:  {0, 1},
		10: {1, 10}, 11: {10, 10}, 12: {11, 12}, // a child, and its child in its own session
		20: {1, 20}, 21: {1, 20}, // an orphan
		30: {1, 30},                // an orphan in its own session
		40: {41, 40}, 41: {40, 40}, // a cycle, which a table that changes while it is read may have
	})
	want := map[int]int{10: 0, 11: 0, 12: 0, 20: 1, 21: 1}
	if !maps.Equal(got, want) {
		t.Errorf("owners are %v, want %v", got, want)
	}
}
