package listing_test

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
)

var params = listing.Params{
	Filters: listing.Filters{"names": listing.Text("name"), "ports": listing.Number("port"), "on": listing.Flag("on"),
		"types": listing.Word("type", "a", "b")},
	Orders: []string{"name"}, Includes: []string{"space"}, Fields: []string{"space"}, Extra: []string{"own"},
}

func TestParse(t *testing.T) {
	t.Parallel()
	for query, want := range map[string][]platform.Cond{
		"":                                  nil,
		"own=1":                             nil,
		"names=x,y%252Cz":                   {platform.In("name", "x", "y,z")},
		"names=":                            {platform.In("name", "")},
		"ports=1,2&on=true&types=a":         {platform.In("on", true), platform.In("port", 1, 2), platform.In("type", "a")},
		"guids=g&include=space":             {platform.In("guid", "g")},
		"order_by=-name&fields[space]=guid": nil,
	} {
		got, err := params.Parse(httptest.NewRequest(http.MethodGet, "/v3/things?"+query, nil), "http://api")
		if err != nil {
			t.Errorf("%q: %v, want no error", query, err)
			continue
		}
		if !reflect.DeepEqual(got.Query.Where, want) {
			t.Errorf("%q: got %+v, want %+v", query, got.Query.Where, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"nope=1":             "Unknown query parameter(s): 'nope'",
		"names=a&names=b":    "more than once",
		"page=0":             "Page must be a positive integer",
		"per_page=5001":      "Per page must be between 1 and 5000",
		"ports=x":            "Ports must be numbers",
		"on=maybe":           "On must be 'true' or 'false'",
		"types=c":            "Types must be one of: 'a', 'b'",
		"order_by=age":       "Order by can only be",
		"include=app":        "Valid included resources are: 'space'",
		"label_selector=a/b": "Invalid label_selector value",
		"created_ats=today":  "invalid timestamp format",
	} {
		_, err := params.Parse(httptest.NewRequest(http.MethodGet, "/v3/things?"+query, nil), "http://api")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", query, err, want)
		}
	}
	// A single resource has no pages. As in Cloud Controller, one that can include
	// nothing does not look at parameters at all.
	get := httptest.NewRequest(http.MethodGet, "/v3/things/1?page=1&page=2", nil)
	if _, err := (listing.Params{Single: true, Includes: []string{"space"}}).Parse(get, ""); err == nil {
		t.Error("page of a single resource: got no error, want one")
	}
	if _, err := (listing.Params{Single: true}).Parse(get, ""); err != nil {
		t.Errorf("page of a single resource that includes nothing: %v", err)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	l, err := params.Parse(httptest.NewRequest(http.MethodGet, "/v3/things?page=2&per_page=2&names=x", nil), "http://api")
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	l.Write(w, 5, []string{"third", "fourth"}, nil)
	for _, want := range []string{`"total_results":5`, `"total_pages":3`, `"third"`,
		`"next":{"href":"http://api/v3/things?names=x\u0026page=3`,
		`"previous":{"href":"http://api/v3/things?names=x\u0026page=1`} {
		if got := w.Body.String(); !strings.Contains(got, want) {
			t.Errorf("got %s, want it to have %s", got, want)
		}
	}
}
