package storetest

import "ingot/internal/notify"

// testQuietHours sets, changes, shows, erases and deletes quiet hours.
func testQuietHours(k *kit) {
	s := k.store()
	make := func(from string, days ...string) *notify.QuietHours {
		return value[*notify.QuietHours](k)(notify.NewQuietHours(from, "07:00", "Europe/Berlin", days, nil))
	}
	texts := func(users ...string) map[string]string {
		all := map[string]string{}
		for id, q := range value[map[string]*notify.QuietHours](k)(s.QuietHours(k.ctx, users)) {
			all[id] = q.String()
		}
		return all
	}
	everyone := []string{"ann", "dora", "mailto:dora@example.com", "o'neil", "nobody", ""}
	k.equal("none", texts(everyone...), map[string]string{})
	for _, id := range everyone[:4] {
		k.must(s.ChangePreferences(k.ctx, id, notify.PreferenceChange{Quiet: make("22:00", "mon")}))
	}
	k.must(s.ChangePreferences(k.ctx, "ann", notify.PreferenceChange{Quiet: make("21:30")}))
	k.must(s.ChangePreferences(k.ctx, "ann", notify.PreferenceChange{Wishes: map[notify.KindRef]notify.Wish{
		{ClientID: "c", KindID: "a"}: turning(notify.Email, false)}}))
	const monday = "22:00 to 07:00 (Europe/Berlin) on mon"
	k.equal("all", texts(everyone...), map[string]string{"ann": "21:30 to 07:00 (Europe/Berlin)", "dora": monday,
		"mailto:dora@example.com": monday, "o'neil": monday})
	k.equal("one", texts("dora"), map[string]string{"dora": monday})
	k.equal("nobody", texts(), map[string]string{})

	of := dora
	of.All = true
	const shown = "*notify.QuietHours"
	k.equal("shown", k.shown(s, of), []string{shown, shown})
	of.All, of.ClientID = false, "c"
	k.equal("shown to a client", k.shown(s, of), []string(nil))
	k.erase(s, "e1", of)
	k.equal("after a client's erasure", len(texts(everyone...)), 4)
	of.All, of.ClientID = true, ""
	k.erase(s, "e2", of)
	k.equal("after an erasure", len(texts(everyone...)), 2)

	k.must(s.ChangePreferences(k.ctx, "ann", notify.PreferenceChange{NoQuiet: true}))
	k.must(s.ChangePreferences(k.ctx, "nobody", notify.PreferenceChange{NoQuiet: true}))
	k.equal("deleted", texts(everyone...), map[string]string{"o'neil": monday})
}
