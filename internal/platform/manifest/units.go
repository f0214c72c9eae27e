package manifest

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"ingot/internal/base/pattern"
)

var sizePattern = pattern.OnUse(`(?i)^\s*(-?\d+(?:\.\d+)?)\s*(B|[KMGT](?:i?B)?)?\s*$`)

// bytesOf parses a size with its unit; all units are powers of 1024.
func bytesOf(text string) (float64, bool, error) {
	m := sizePattern().FindStringSubmatch(text)
	if m == nil {
		return 0, false, fmt.Errorf("must use a supported unit: B, K, KB, M, MB, G, GB, T, or TB")
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, false, err
	}
	unit := strings.ToUpper(m[2])
	if unit == "" {
		return n, false, nil
	}
	return n * math.Pow(1024, float64(strings.IndexByte("BKMGT", unit[0]))), true, nil
}

// megabytes parses a size, which must have a unit and be at least one megabyte.
func megabytes(v any) (int, error) {
	text, ok := v.(string)
	if !ok {
		return 0, fmt.Errorf("must use a supported unit: B, K, KB, M, MB, G, GB, T, or TB")
	}
	n, unit, err := bytesOf(text)
	if err != nil {
		return 0, err
	}
	if !unit {
		return 0, fmt.Errorf("must use a supported unit: B, K, KB, M, MB, G, GB, T, or TB")
	}
	mb := math.Floor(n / (1 << 20))
	if mb < 1 || mb > math.MaxInt32 {
		return 0, fmt.Errorf("must be greater than 0MB")
	}
	return int(mb), nil
}

// logRate parses bytes per second; -1 and 0 need no unit.
func logRate(v any) (int64, error) {
	if n, ok := v.(int); ok && (n == -1 || n == 0) {
		return int64(n), nil
	}
	text, ok := v.(string)
	if !ok {
		return 0, fmt.Errorf("must be an integer with a unit, or -1 for unlimited")
	}
	n, unit, err := bytesOf(text)
	if err != nil {
		return 0, err
	}
	if !unit && n != -1 && n != 0 || n < -1 || n > math.MaxInt64/2 {
		return 0, fmt.Errorf("must use a supported unit: B, K, KB, M, MB, G, GB, T, or TB")
	}
	return int64(n), nil
}

// showRate returns the shortest exact form.
func showRate(n int64) any {
	if n <= 0 {
		return int(n)
	}
	units := []string{"B", "K", "M", "G", "T"}
	i := 0
	for i < len(units)-1 && n%1024 == 0 {
		n /= 1024
		i++
	}
	return strconv.FormatInt(n, 10) + units[i]
}

func showMB(n int) string { return strconv.Itoa(n) + "M" }
