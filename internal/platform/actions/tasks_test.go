package actions

import "testing"

func TestTaskShare(t *testing.T) {
	t.Parallel()
	for places, want := range map[int]int{1: 1, 2: 1, 3: 2, 4: 3, 64: 48, 1000: 750} {
		if got := TaskShare(places); got != want {
			t.Errorf("of %d places an organization may hold %d, want %d", places, got, want)
		}
	}
}
