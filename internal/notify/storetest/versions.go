package storetest

import (
	"fmt"
	"strings"
	"time"

	"ingot/internal/notify"
)

func testTemplateVersions(k *kit) {
	s := k.store()
	at := start
	k.must(s.CreateTemplate(k.ctx, notify.Template{ID: "t", Creator: "c", Name: "T", Text: "one", ChangedBy: "ann",
		Created: at, Updated: at}))
	versions := func() string {
		k.Helper()
		var out []string
		for _, t := range value[[]notify.Template](k)(s.TemplateVersions(k.ctx, "t")) {
			out = append(out, fmt.Sprintf("%d %s %s %s %v", t.Version, t.Text, t.Variants["de"].Text, t.ChangedBy,
				t.Updated.Sub(at)))
		}
		return strings.Join(out, ", ")
	}
	update := func(text, by string, after time.Duration) {
		k.Helper()
		k.must(s.UpdateTemplate(k.ctx, notify.Template{ID: "t", Name: "T", Text: text, ChangedBy: by,
			Updated: at.Add(after)}))
	}
	k.equal("a new template", versions(), "1 one  ann 0s")
	update("two", "bob", time.Second)
	update("two", "eve", 2*time.Second) // no change
	k.must(s.SetVariant(k.ctx, "t", "de", &notify.Variant{Text: "zwei"}, at.Add(3*time.Second), "dora"))
	s = k.store()
	k.equal("versions", versions(), "3 two zwei dora 3s, 2 two  eve 2s, 1 one  ann 0s")
	k.must(s.RestoreTemplate(k.ctx, "t", 1, at.Add(4*time.Second), "ann"))
	k.equal("after a rollback", versions(), "4 one  ann 4s, 3 two zwei dora 3s, 2 two  eve 2s, 1 one  ann 0s")
	k.must(s.RestoreTemplate(k.ctx, "t", 3, at.Add(5*time.Second), "ann"))
	k.equal("its text", value[notify.Template](k)(s.Template(k.ctx, "t")).Variants["de"].Text, "zwei")
	k.wantErr(s.RestoreTemplate(k.ctx, "t", 9, at, "ann"), notify.ErrNotFound)
	k.wantErr(s.RestoreTemplate(k.ctx, "none", 1, at, "ann"), notify.ErrNotFound)
	_, err := s.TemplateVersions(k.ctx, "none")
	k.wantErr(err, notify.ErrNotFound)
	for i := range notify.MaxVersions + 5 {
		update(fmt.Sprint("text ", i), "ann", time.Minute)
	}
	all := value[[]notify.Template](k)(s.TemplateVersions(k.ctx, "t"))
	k.equal("kept versions", len(all), notify.MaxVersions+1)
	k.equal("the oldest", all[len(all)-1].Version, all[0].Version-notify.MaxVersions)
	k.must(s.DeleteTemplate(k.ctx, "t"))
	k.must(s.CreateTemplate(k.ctx, notify.Template{ID: "t", Creator: "c", Name: "T", Created: at, Updated: at}))
	k.equal("versions of another template", len(value[[]notify.Template](k)(s.TemplateVersions(k.ctx, "t"))), 1)

	// Versions count, and make room for what is in use.
	s = k.open(Options{Bounds: notify.Bounds{Definitions: 10_000}, Now: k.clock.Now})
	k.must(s.CreateTemplate(k.ctx, notify.Template{ID: "big", Creator: "d", Created: at, Updated: at}))
	for i := range 5 {
		k.must(s.UpdateTemplate(k.ctx, notify.Template{ID: "big", Text: strings.Repeat(fmt.Sprint(i), 3000), Updated: at}))
	}
	k.equal("versions that fit", len(value[[]notify.Template](k)(s.TemplateVersions(k.ctx, "big"))), 3)
	stored := value[notify.Stored](k)(s.Stored(k.ctx, "d"))
	if stored.Definitions < 9000 || stored.Definitions > 10_000 {
		k.Errorf("%d bytes are counted", stored.Definitions)
	}
	k.wantFull("a large template", s.UpdateTemplate(k.ctx, notify.Template{ID: "big", Text: strings.Repeat("x", 10_000),
		Updated: at}))
}
