package storetest

import (
	"fmt"
	"strings"
	"time"

	"ingot/internal/notify"
)

func testVariants(k *kit) {
	s := k.store()
	at := start
	k.must(s.CreateTemplate(k.ctx, notify.Template{ID: "t", Creator: "c", Name: "T", Text: "own", Created: at,
		Updated: at}))
	german, french := &notify.Variant{Subject: "Grüße", Text: "Hallo"}, &notify.Variant{HTML: "<p>é</p>"}
	get := func() notify.Template { k.Helper(); return value[notify.Template](k)(s.Template(k.ctx, "t")) }
	k.equal("number of variants", len(get().Variants), 0)
	k.must(s.SetVariant(k.ctx, "t", "de", german, at.Add(time.Second), "ann"))
	k.must(s.SetVariant(k.ctx, "t", "fr", german, at, "ann"))
	k.must(s.SetVariant(k.ctx, "t", "fr", french, at.Add(2*time.Second), "ann"))
	want := map[string]notify.Variant{"de": *german, "fr": *french}
	k.equal("variants", get().Variants, want)
	k.equal("the time of the change", get().Updated, at.Add(2*time.Second))
	s = k.store()
	k.equal("variants after a restart", get().Variants, want)
	k.equal("listed variants", value[[]notify.Template](k)(s.ListTemplates(k.ctx, ""))[0].Variants, want)

	// The template changes without them.
	k.must(s.UpdateTemplate(k.ctx, notify.Template{ID: "t", Name: "T", Text: "new", Updated: at}))
	k.equal("variants of a changed template", get().Variants, want)
	k.wantErr(s.SetVariant(k.ctx, "t", "it", nil, at, "ann"), notify.ErrNotFound)
	k.wantErr(s.SetVariant(k.ctx, "none", "de", german, at, "ann"), notify.ErrNotFound)
	if s.SetVariant(k.ctx, "t", "de", &notify.Variant{Text: "a\x00"}, at, "ann") == nil {
		k.Error("a NUL is stored")
	}
	k.must(s.SetVariant(k.ctx, "t", "fr", nil, at, "ann"))
	k.equal("variants after one was deleted", get().Variants, map[string]notify.Variant{"de": *german})

	for i := 1; i < notify.MaxVariants; i++ {
		k.must(s.SetVariant(k.ctx, "t", fmt.Sprintf("x-%d", i), german, at, "ann"))
	}
	k.wantErr(s.SetVariant(k.ctx, "t", "fr", french, at, "ann"), notify.ErrTooMany)
	k.must(s.SetVariant(k.ctx, "t", "de", french, at, "ann"))
	k.must(s.DeleteTemplate(k.ctx, "t"))

	s = k.open(Options{Bounds: notify.Bounds{Definitions: 10_000}, Now: k.clock.Now})
	k.must(s.CreateTemplate(k.ctx, notify.Template{ID: "t", Creator: "c", Created: at, Updated: at}))
	long := &notify.Variant{Text: strings.Repeat("x", 6000)}
	k.must(s.SetVariant(k.ctx, "t", "de", long, at, "ann"))
	k.wantFull("a long variant", s.SetVariant(k.ctx, "t", "fr", long, at, "ann"))
}
