package uaaclient_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/uaaclient"
)

// answering is a server that gives tokens, and one answer to everything else.
func answering(t *testing.T, status int, body any) (*uaaclient.Client, string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/oauth/token" {
			fmt.Fprint(w, `{"access_token":"tok","expires_in":600}`)
			return
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(server.Close)
	c := uaaclient.New(uaaclient.Options{BaseURL: server.URL})
	t.Cleanup(c.Close)
	return c, server.URL
}

func TestPeople(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	c, _ := answering(t, http.StatusOK, m{"totalResults": 2, "resources": []m{
		{"id": "a", "emails": []m{{"value": "2@x"}, {"value": "1@x", "primary": true}, {"value": "3@x"}}}, {"id": "b"},
	}})
	page, more, err := c.PeopleAfter(t.Context(), "", 10)
	if err != nil || more || len(page) != 2 || !slices.Equal(page[0].Emails, []string{"1@x", "2@x", "3@x"}) ||
		page[1].Emails != nil {
		t.Errorf("page is %+v, more %v, %v, want 2 people, the primary address first, and no more", page, more, err)
	}
	if _, more, err := c.PeopleFrom(t.Context(), 1, 10); more || err != nil {
		t.Errorf("more is %v, %v, want false", more, err)
	}
	byID, err := c.PeopleByID(t.Context(), []string{"a", "b", "c"})
	if err != nil || len(byID) != 2 {
		t.Errorf("people are %v, %v, want 2", byID, err)
	}
	c, _ = answering(t, http.StatusOK, m{"totalResults": 9, "resources": []m{}})
	if _, _, err := c.PeopleAfter(t.Context(), "a", 10); err == nil {
		t.Error("an empty page of a list that goes on is taken for its end")
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	c, _ := answering(t, http.StatusOK,
		m{"resources": []m{{"id": "g", "displayName": "a.b", "members": []m{{"value": "u", "type": "USER"},
			{"value": "h", "type": "GROUP"}}}}})
	g, err := c.GroupByName(t.Context(), "a.b")
	if err != nil || g == nil || len(g.Members) != 2 || g.Members[0].IsGroup() || !g.Members[1].IsGroup() {
		t.Errorf("group is %+v, %v, want a user and a group as members", g, err)
	}
	if g, err := c.GroupByName(t.Context(), "A.B"); g != nil || err != nil {
		t.Errorf("another scope: %+v, %v", g, err)
	}
	c, _ = answering(t, http.StatusNotFound, nil)
	if g, err := c.GroupByID(t.Context(), "x"); g != nil || err != nil {
		t.Errorf("group is %+v, %v, want none", g, err)
	}
	c, _ = answering(t, http.StatusForbidden, m{"error": "insufficient_scope"})
	if _, err := c.GroupByID(t.Context(), "x"); uaaclient.StatusOf(err) != http.StatusForbidden {
		t.Errorf("got %v", err)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	c, base := answering(t, http.StatusOK, map[string]string{"x": strings.Repeat("y", 9<<20)})
	var into any
	if err := c.Fetch(t.Context(), uaaclient.NewHTTPClient(nil), base+"/big", &into); err == nil {
		t.Error("an answer of any size is read")
	}
}
