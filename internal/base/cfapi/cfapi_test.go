package cfapi_test

import (
	"encoding/json"
	"net/url"
	"testing"

	"ingot/internal/base/cfapi"
)

// TestAdd leaves out what is empty, and keeps what was set to an empty value on purpose.
func TestAdd(t *testing.T) {
	t.Parallel()
	empty := ""
	body := map[string]any{"type": "app"}
	cfapi.Add(body, "name", "", "port", 0, "tags", []string{}, "parameters", map[string]any{}, "url", (*string)(nil),
		"drain", &empty, "host", "blue", "weight", 2, "all", true, "nothing", nil, "off", false)
	got, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"all":true,"drain":"","host":"blue","type":"app","weight":2}`; string(got) != want {
		t.Errorf("the body is %s, want %s", got, want)
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	q := url.Values{"names": {"a"}}
	cfapi.Filter(q, "service_broker_names", "", "ports", "1024")
	if got, want := q.Encode(), "names=a&ports=1024"; got != want {
		t.Errorf("the query is %s, want %s", got, want)
	}
}

// TestRelationships are written as the API wants them, and a missing one has no guid.
func TestRelationships(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal([]any{cfapi.Relate("a"), cfapi.To{}, cfapi.RelateAll("a", "b"), cfapi.RelateAll()})
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"data":{"guid":"a"}},{"data":null},{"data":[{"guid":"a"},{"guid":"b"}]},{"data":[]}]`
	if string(got) != want {
		t.Errorf("relationships are %s, want %s", got, want)
	}
	var space cfapi.Space
	if err := json.Unmarshal([]byte(`{"relationships":{"organization":{"data":{"guid":"o"}},"quota":{"data":null}}}`),
		&space); err != nil {
		t.Fatal(err)
	}
	if of := space.Relationships; of.Organization.GUID() != "o" || of.Quota.GUID() != "" {
		t.Errorf("the relationships of the space are %+v", of)
	}
}
