package page

import "testing"

func TestHumanBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1 KB", 1536: "1.5 KB", 64 << 20: "64 MB", 6_750_000: "6.4 MB", 1 << 30: "1 GB",
		5 << 40: "5 TB", 3 << 50: "3072 TB",
	} {
		if got := HumanBytes(n); got != want {
			t.Errorf("%d bytes: %q, want %q", n, got, want)
		}
	}
}
