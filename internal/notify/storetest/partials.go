package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ingot/internal/notify"
)

func testPartials(k *kit) {
	s := k.store()
	at := start
	set := func(owner, name, text string) {
		k.Helper()
		k.must(s.SetPartial(k.ctx, partial(owner, name, text, at)))
	}
	set("c", "footer", `bye {{template "sign"}}`)
	set("c", "sign", "c")
	set("", "sign", "all")
	set("", "notice", "{{ template `sign` .}}")
	german := partial("c", "footer", `bye {{template "sign"}}`, at)
	german.Variants = map[string]notify.Variant{"de": {Text: "tschüss"}}
	german.Created, german.Updated = at.Add(time.Hour), at.Add(time.Hour)
	k.must(s.SetPartial(k.ctx, german))
	german.Created = at
	k.equal("a replaced partial", value[notify.Partial](k)(s.Partial(k.ctx, "c", "footer")), german)
	k.equal("partials of a client", partialNames(value[[]notify.Partial](k)(s.Partials(k.ctx, "c"))), "footer sign")
	k.equal("shared partials", partialNames(value[[]notify.Partial](k)(s.Partials(k.ctx, ""))), "notice sign")
	_, err := s.Partial(k.ctx, "d", "footer")
	k.wantErr(err, notify.ErrNotFound)
	if s.SetPartial(k.ctx, partial("c", "nul", "a\x00", at)) == nil {
		k.Error("a NUL is stored")
	}

	// A template is read with its partials: the client's own, or else the shared one.
	k.must(s.CreateTemplate(k.ctx, notify.Template{ID: "t", Creator: "c", Name: "T", Text: `{{template "footer" .}}`,
		Created: at, Updated: at}))
	k.must(s.CreateTemplate(k.ctx, notify.Template{ID: "v2", Owner: "d", Name: "V", HTML: `{{- template "notice"}}`,
		Created: at, Updated: at}))
	own := func(id string) string { k.Helper(); return resolved(value[notify.Template](k)(s.Template(k.ctx, id))) }
	k.equal("a template's partials", own("t"), "c/footer c/sign")
	k.equal("shared partials of a template", own("v2"), "/notice /sign")
	set("d", "sign", "d")
	k.equal("a shared partial that uses the client's", own("v2"), "/notice d/sign")
	s = k.store()
	k.equal("after a restart", own("t"), "c/footer c/sign")
	k.must(s.SetVariant(k.ctx, "t", "de", &notify.Variant{Text: `{{template "notice"}}`}, at, "ann"))
	k.equal("with those of a variant", own("t"), "c/footer /notice c/sign")
	k.equal("by name", len(value[map[string]notify.Partial](k)(s.PartialsFor(k.ctx, "x", []string{"notice", "none"}))), 2)

	users := func(owner, name string) string {
		k.Helper()
		return userNames(value[[]notify.PartialUser](k)(s.PartialUsers(k.ctx, owner, name)))
	}
	k.equal("users of a client's partial", users("c", "sign"), "c:footer")
	k.equal("users of a shared one", users("", "notice"), "c:t d:v2")
	k.equal("users of one that clients replace", users("", "sign"), ":notice")
	k.equal("users of a name that begins with another", users("c", "sig"), "")
	using, err := s.DeletePartial(k.ctx, "c", "sign")
	k.wantErr(err, notify.ErrConflict)
	k.equal("users of one that is not deleted", userNames(using), "c:footer")
	_, err = s.DeletePartial(k.ctx, "c", "none")
	k.wantErr(err, notify.ErrNotFound)
	k.must(s.SetVariant(k.ctx, "t", "de", nil, at, "ann"))
	k.must(s.UpdateTemplate(k.ctx, notify.Template{ID: "t", Name: "T", Text: "plain", Updated: at}))
	for _, p := range []string{"footer", "sign"} {
		if using, err := s.DeletePartial(k.ctx, "c", p); err != nil || len(using) > 0 {
			k.Errorf("delete %s: %v, %v", p, using, err)
		}
	}

	for i := range notify.MaxPartials {
		set("many", fmt.Sprint("p", i), "x")
	}
	k.wantErr(s.SetPartial(k.ctx, partial("many", "more", "x", at)), notify.ErrTooMany)
	set("many", "p0", "y")
	s = k.open(Options{Bounds: notify.Bounds{Definitions: 10_000}, Now: k.clock.Now})
	k.must(s.SetPartial(k.ctx, partial("e", "a", strings.Repeat("x", 6000), at)))
	k.wantFull("a large partial", s.SetPartial(k.ctx, partial("e", "b", strings.Repeat("x", 6000), at)))
}

func partial(owner, name, text string, at time.Time) notify.Partial {
	return notify.Partial{Owner: owner, Name: name, Text: text, Created: at, Updated: at}
}

func partialNames(all []notify.Partial) string {
	var out []string
	for _, p := range all {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

// resolved lists the partials of a template with their owners.
func resolved(t notify.Template) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(t.Partials)) {
		out = append(out, t.Partials[name].Owner+"/"+name)
	}
	return strings.Join(out, " ")
}

func userNames(all []notify.PartialUser) string {
	var out []string
	for _, u := range all {
		out = append(out, u.Client+":"+u.TemplateID+u.Partial)
	}
	return strings.Join(out, " ")
}
