package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"ingot/internal/base/schema"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	s, err := schema.Compile([]byte(`{"type":"object","required":["name"],"properties":{"name":{"type":"string","maxLength":3},
		"items":{"type":"array","items":{"type":"object","properties":{"n":{"type":"integer"}}}}}}`), schema.Draft2020)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"name":"Ann"}`:    "[]",
		`{}`:                "[{/ missing property 'name'}]",
		`{"name":"secret"}`: "[{/name maxLength: got 6, want 3}]",
		`{"name":"a","items":[{"n":1},{"n":"x"}]}`: "[{/items/1/n got string, want integer}]",
	} {
		if got, err := s.Check([]byte(text)); fmt.Sprint(got) != want || err != nil {
			t.Errorf("%s: %v, %v, want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"$ref":"file:///etc/passwd"}`:        "external references are not allowed",
		`{"$ref":"http://127.0.0.1/x"}`:        "external references are not allowed",
		`{"type":"nothing"}`:                   "type",
		`{`:                                    "EOF",
		`{"x":"` + strings.Repeat("x", 70_000): "larger than",
	} {
		if _, err := schema.Compile([]byte(text), schema.Draft2020); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s", text, err, want)
		}
	}
}

// What grows with each reference is found without being applied.
func TestCost(t *testing.T) {
	t.Parallel()
	var bomb strings.Builder
	bomb.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range 60 {
		fmt.Fprintf(&bomb, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	bomb.WriteString(`"a60":{"type":"string"}}}`)
	for text, want := range map[string]string{
		`{"type":"object","properties":{"a":{"type":"string"},"b":{"$ref":"#/$defs/c"}},"$defs":{"c":{"items":{}}}}`:                          "6",
		`{"properties":{"enum":{"properties":{"$defs":{"$ref":"#/$defs/a0"}}}},` + strings.TrimPrefix(bomb.String(), `{"$ref":"#/$defs/a0",`): "more than 1000 parts",
		bomb.String():  "more than 1000 parts",
		`{"$ref":"#"}`: "must be of the form",
		`{"$ref":"#/$defs/a","$defs":{"a":{"items":{"$ref":"#/$defs/a"}}}}`: "leads back to itself",
		`{"$ref":"#/$defs/b"}`: "there is no",
		`{"$dynamicRef":"#x"}`: "is not allowed",
	} {
		n, err := schema.Cost([]byte(text), 1000)
		got := fmt.Sprint(n)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%.60s: %s, want %s", text, got, want)
		}
	}
}
