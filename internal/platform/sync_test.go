package platform_test

import (
	"testing"

	"ingot/internal/platform"
)

func TestNeedsBuild(t *testing.T) {
	t.Parallel()
	rules := platform.SyncRulesOf(&platform.Droplet{
		ExecutionMetadata: `{"sync":{"restage":["package.json","vendor/","["],"restage_presence":["*.py"]}}`})
	if rules == nil {
		t.Fatal("there are no rules")
	}
	rules.Restage = rules.Restage[:2]
	for _, test := range []struct {
		changed, others []string
		want            string
	}{
		{[]string{"lib/a.js", "sub/package.json"}, []string{"new.js", "sub/a.py"}, ""},
		{[]string{"a.py"}, nil, ""},
		{[]string{"package.json"}, nil, "package.json"},
		{nil, []string{"package.json"}, "package.json"},
		{nil, []string{"a.py"}, "a.py"},
		{[]string{"vendor/x/y"}, nil, "vendor/x/y"},
		{[]string{"Procfile"}, nil, "Procfile"},
	} {
		if got := rules.NeedsBuild(test.changed, test.others); got != test.want {
			t.Errorf("%v and %v: got %q, want %q", test.changed, test.others, got, test.want)
		}
	}
	invalid := &platform.SyncRules{Restage: []string{"["}}
	if invalid.NeedsBuild([]string{"a"}, nil) == "" {
		t.Error("an invalid pattern allows a change")
	}
	image := &platform.Droplet{Container: &platform.Image{}, ExecutionMetadata: `{"sync":{"restage":[]}}`}
	if platform.SyncRulesOf(image) != nil {
		t.Error("an image has rules")
	}
}
