package actions

import (
	"encoding/json"
	"strings"
	"testing"

	"ingot/internal/base/schema"
	"ingot/internal/notify"
)

// Checking much data with a large schema ends early.
func TestCheckingIsLimited(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"type":"object"}`)
	compiled, err := schema.Compile(raw, schema.Draft2020)
	if err != nil {
		t.Fatal(err)
	}
	c := &dataCheck{kind: "k", schema: compiled, parts: maxSchemaParts, left: maxChecking}
	large := notify.Member{UserID: "u", Data: json.RawMessage(`{"a":"` + strings.Repeat("x", notify.MaxMemberData-10) + `"}`)}
	for i := range notify.MaxList {
		if err := c.member(i+1, large); err != nil {
			if !strings.Contains(err.Error(), "too many for this much data") {
				t.Fatal(err)
			}
			return
		}
	}
	t.Errorf("%d recipients with large data were checked", notify.MaxList)
}
