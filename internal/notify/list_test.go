package notify_test

import (
	"encoding/json"
	"strings"
	"testing"

	"ingot/internal/notify"
)

func TestCheckData(t *testing.T) {
	t.Parallel()
	nested := func(levels int) string {
		return strings.Repeat(`{"a":`, levels-1) + "{}" + strings.Repeat("}", levels-1)
	}
	for raw, want := range map[string]string{
		``:                                 "",
		`{}`:                               "",
		` {"a": [1, "}{][", {"b": null}]}`: "",
		nested(20):                         "",
		nested(21):                         "is nested more than 20 levels deep",
		`{"a": "` + strings.Repeat("[{", 30) + `"}`:              "",
		`{"a": "quoted \" and ` + strings.Repeat("{", 30) + `"}`: "",
		`{"a": "b\u0000"}`:  "contains a NUL character, which no message can show",
		`{"a\u0000": 1}`:    "contains a NUL character, which no message can show",
		`{"a": "\\\u0000"}`: "contains a NUL character, which no message can show",
		`{"a": "\\u0000"}`:  "", // a backslash, and text
		`{"a": "\\"}`:       "",
		`{"a": "b\u00001"}`: "contains a NUL character, which no message can show",
		`{"a": "\u0001"}`:   "",
		`[]`:                "must be an object",
		`"a"`:               "must be an object",
		`{"a": 1`:           "is not valid JSON",
		`{"a": "`:           "is not valid JSON",
		`{"a": "\`:          "is not valid JSON",
		`{} {}`:             "is not valid JSON",
		"{\"a\": \"\x00\"}": "is not valid JSON",
		`{"a": "` + strings.Repeat("x", 1000) + `"}`: "is 1009 bytes long, at most 1000 are allowed",
	} {
		if got := notify.CheckData(json.RawMessage(raw), 1000); got != want {
			t.Errorf("%.80s: %q, want %q", raw, got, want)
		}
	}
}

// Checking the data of the recipients of a long list makes no garbage.
//
//nolint:paralleltest // it counts the allocations of the process
func TestCheckDataAllocates(t *testing.T) {
	raw := json.RawMessage(`{"name": "Dora", "total": 12.5, "items": [{"count": 1, "title": "Bell"}, {"count": 2}]}`)
	if n := testing.AllocsPerRun(100, func() { notify.CheckData(raw, 1000) }); n > 1 {
		t.Errorf("%.0f allocations", n)
	}
}
