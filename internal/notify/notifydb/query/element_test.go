package query_test

import (
	"encoding/json"
	"testing"

	"ingot/internal/notify/notifydb/query"
)

func TestElement(t *testing.T) {
	t.Parallel()
	for _, array := range []string{
		`[]`, `[ ]`, `[1]`, `[1,2,3]`, ` [ 1 , {"a": [1, 2]} , "x,y]" ] `, `[{"a":"}],\"["},{"b":{"c":[{},[]]}},null,""]`,
		`["\\","\\\"",[[],[1,[2]]]]`, `[[],{}]`,
	} {
		var want []json.RawMessage
		if err := json.Unmarshal([]byte(array), &want); err != nil {
			t.Fatal(err)
		}
		for i := range len(want) + 2 {
			got, found := query.Element([]byte(array), i)
			if found != (i < len(want)) || found && string(got) != string(want[i]) {
				t.Errorf("element %d of %s is %q, %t", i, array, got, found)
			}
		}
	}
	for _, cut := range []string{``, `[`, `["`, `["a\`, `[{"a":1`} { // it is damaged, and read anyway
		if got, found := query.Element([]byte(cut), 0); found {
			t.Errorf("%q of %q", got, cut)
		}
	}
}
