package api_test

import (
	"regexp"
	"testing"
)

// unrouted are operations of the description that are not routed, with the reason.
var unrouted = map[string]string{
	"PATCH /v3/apps/{guid}/builds": "a slip of the description: Cloud Foundry has PATCH /v3/builds/{guid}, " +
		"which is routed",
}

// notYet are operations that are being built.
var notYet = map[string]string{}

// TestEveryOperationIsRouted: every operation of Cloud Foundry's description is
// answered, or listed with the reason why not.
func TestEveryOperationIsRouted(t *testing.T) {
	t.Parallel()
	d, err := openAPI()
	if err != nil {
		t.Fatal(err)
	}
	if d == nil {
		t.Skip("there is no description of the API")
	}
	parameter := regexp.MustCompile(`\{[^}]*\}`)
	routed := map[string]bool{}
	for _, r := range setup(t).routes {
		routed[r.Method+" "+parameter.ReplaceAllString(r.Pattern, "{}")] = true
	}
	described := map[string]bool{}
	for _, o := range d.Operations() {
		what := o.Method + " " + o.Path
		described[what] = true
		_, listed := unrouted[what]
		_, later := notYet[what]
		switch is := routed[parameter.ReplaceAllString(what, "{}")]; {
		case !is && !listed && !later:
			t.Errorf("%s is not routed: route it, or say in unrouted why not", what)
		case is && (listed || later):
			t.Errorf("%s is routed: remove it from the list", what)
		}
	}
	for _, list := range []map[string]string{unrouted, notYet} {
		for what := range list {
			if !described[what] {
				t.Errorf("%s is listed and not described", what)
			}
		}
	}
}
