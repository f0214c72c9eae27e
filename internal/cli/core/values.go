package core

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/cli/bits"
	"ingot/internal/cli/client"
)

// Megabytes parses a size in the format of manifests.
func Megabytes(text string) (int64, error) {
	upper := strings.ToUpper(strings.TrimSpace(text))
	upper = strings.TrimSuffix(strings.TrimSuffix(upper, "B"), "I")
	units := map[byte]float64{'K': 1.0 / 1024, 'M': 1, 'G': 1024, 'T': 1024 * 1024}
	if upper == "" || units[upper[len(upper)-1]] == 0 {
		return 0, BadSize(text)
	}
	n, err := strconv.ParseFloat(upper[:len(upper)-1], 64)
	mb := int64(math.Floor(n * units[upper[len(upper)-1]]))
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, BadSize(text)
	}
	if mb > math.MaxInt32 || n > math.MaxInt32*1024 { // as the API
		return 0, fmt.Errorf("%q is too large", text)
	}
	if mb < 1 {
		return 0, fmt.Errorf("%q is less than 1M", text)
	}
	return mb, nil
}

// Sizes adds the values of the flags -m and -k to a request.
func Sizes(to map[string]any, memory, disk string) error {
	for _, size := range []struct{ flag, text, key string }{
		{"-m", memory, "memory_in_mb"}, {"-k", disk, "disk_in_mb"},
	} {
		if size.text == "" {
			continue
		}
		mb, err := Megabytes(size.text)
		if err != nil {
			return UsageError(size.flag + ": " + err.Error())
		}
		to[size.key] = mb
	}
	return nil
}

// BadSize is the error for text that is not a size.
func BadSize(text string) error {
	return fmt.Errorf("%q is not a size: write a number and one of the units M, G or T, such as 256M or 1G", text)
}

// Rate is a number of bytes per second, or -1 for unlimited.
type Rate string

// IsValidValue accepts -1, which otherwise looks like a flag.
func (Rate) IsValidValue(value string) error {
	if strings.HasPrefix(value, "-") && value != "-1" {
		return fmt.Errorf("%q is not a number of bytes such as 16K, or -1 for unlimited", value)
	}
	return nil
}

// JSONObject parses JSON, or the JSON in a file.
func (s *Session) JSONObject(what, flag string) (map[string]any, error) {
	content := []byte(flag)
	if !strings.HasPrefix(strings.TrimSpace(flag), "{") {
		var err error
		if content, err = os.ReadFile(s.Env.Path(flag)); err != nil {
			return nil, UsageError(what + " is neither a JSON object nor a readable file: " + err.Error())
		}
	}
	var out map[string]any
	if err := json.Unmarshal(content, &out); err != nil {
		return nil, UsageError(what + " is not a JSON object: " + err.Error())
	}
	return out, nil
}

// FileBits returns the upload of a file of the given length.
func FileBits(path string, length int64) *client.Bits {
	return &client.Bits{Length: length, Write: func(w io.Writer) error { return bits.Copy(w, path, length) }}
}

// Date formats a time in the user's time zone, the same way in every command.
func Date(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.RFC3339)
}

// ShownTime formats a timestamp of the API like date.
func ShownTime(text string) string {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return Date(t)
}

// SortedKeys returns the keys of a map, sorted.
func SortedKeys[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Title returns a word with its first character in upper case.
func Title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// The phases that a security group applies to.
const (
	PhaseRunning = "running"
	PhaseStaging = "staging"
)
