package notifications

import (
	"reflect"
	"strings"
	"testing"

	"ingot/internal/base/fault"
	"ingot/internal/console/page"
)

func TestVolume(t *testing.T) {
	t.Parallel()
	v := volumeOf([]int{0, 1, 100})
	if want := (volume{101, []int{0, 1, 100}, []bar{{10, 18, 2}, {20, 0, 20}}}); !reflect.DeepEqual(v, want) {
		t.Errorf("%+v, want %+v", v, want)
	}
	if v := volumeOf(nil); v.Total != 0 || len(v.Bars) > 0 {
		t.Errorf("nothing is %+v", v)
	}
}

func TestTemplateUses(t *testing.T) {
	t.Parallel()
	sources := []source{
		{ID: "a", Template: "default", Kinds: []kind{{ID: "x", Template: "default"}, {ID: "y", Template: "t"}}},
		{ID: "b", Template: "t", Kinds: []kind{{ID: "x", Template: "default"}}},
	}
	for id, want := range map[string]string{"default": "a/x", "t": "a/y b", "u": ""} {
		if got := strings.Join(usesOf(id, sources), " "); got != want {
			t.Errorf("%s is used by %q, want %q", id, got, want)
		}
	}
	got := registration([]source{{ID: page.ClientID, Kinds: []kind{{ID: "old", Description: "d", Critical: true}}},
		{ID: "b", Kinds: []kind{{ID: "theirs"}}}}, "new", "n", false)
	want := map[string]any{"old": map[string]any{"description": "d", "critical": true},
		"new": map[string]any{"description": "n", "critical": false}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the registration is %v, want %v", got, want)
	}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		m             message
		path, command string
	}{
		{message{To: toUser, User: "a/b", Kind: "k", Text: "t"}, "/users/a%2Fb",
			"ingot notifications send k --user a/b --text t"},
		{message{To: toSpace, Space: "s", Kind: "k", Text: "t", Subject: "a b"}, "/spaces/s",
			"ingot notifications send k --space s --subject 'a b' --text t"},
		{message{To: toOrg, Org: "o", Role: "OrgManager", Kind: "k", HTML: "h"}, "/organizations/o",
			"ingot notifications send k --org o --role OrgManager --html h"},
		{message{To: toEveryone, Kind: "k", Text: "t", User: "left over"}, "/everyone",
			"ingot notifications send k --everyone --text t"},
		{message{To: toScope, Scope: "a.b", Kind: "k", Text: "t"}, "/uaa_scopes/a.b",
			"ingot notifications send k --scope a.b --text t"},
		{message{To: toEmail, Email: "a@b", Kind: "k", Text: "t"}, "/emails",
			"ingot notifications send k --email a@b --text t"},
	} {
		if err := test.m.check(); err != nil {
			t.Errorf("%+v: %v", test.m, err)
		}
		if got := test.m.path(); got != test.path {
			t.Errorf("the path is %s, want %s", got, test.path)
		}
		if got := test.m.command(); got != test.command {
			t.Errorf("the command is %s, want %s", got, test.command)
		}
	}
	c := message{To: toOrg, Org: "o", Kind: campaignPrefix + "s/t", Subject: "S", Text: "t"}
	if err := c.check(); err != nil || !reflect.DeepEqual(c.campaignBody("t")["send_to"],
		map[string][]string{"orgs": {"o"}}) || !strings.Contains(c.command(), "/senders/s/campaigns") {
		t.Errorf("a campaign: %v, %v, %s", err, c.campaignBody("t"), c.command())
	}
	for _, bad := range []message{
		{To: toEveryone, Kind: campaignPrefix + "s/t", Subject: "S", Text: "t"},
		{To: toUser, User: "u", Kind: campaignPrefix + "s/t", Text: "t"},
		{To: "all", Kind: "k", Text: "t"}, {To: toUser, Kind: "k", Text: "t"}, {To: toEveryone, Text: "t"},
		{To: toEveryone, Kind: "k", Text: " "}, {},
	} {
		if err := bad.check(); !fault.Is(err, fault.Unprocessable) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
