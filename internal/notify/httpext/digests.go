package httpext

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify"
)

// registerDigests adds the routes that say which notifications of a kind are collected in digests.
func (f *handlers) registerDigests(g *web.Group) {
	manager := web.Scope(scopeManage)
	g.Handle("GET", "/kinds/{kind}/digest", web.Scope(scopeManage, scopeAdmin),
		f.showOfKind(func(k *notify.Kind) any { return presentDigest(k) }))
	g.Handle("PUT", "/kinds/{kind}/digest", manager, f.setDigest)
	g.Handle("DELETE", "/kinds/{kind}/digest", manager, f.deleteDigest)
}

// digestBody has the rule, nil for a kind that has none, and what it says in words.
type digestBody struct {
	Digest      *notify.DigestRule `json:"digest"`
	Description string             `json:"description"`
}

func presentDigest(k *notify.Kind) digestBody {
	switch {
	case k.DigestRule == nil:
		return digestBody{Description: "not collected"}
	case k.Critical:
		return digestBody{k.DigestRule, "not collected, because the kind is critical"}
	}
	return digestBody{k.DigestRule, k.DigestRule.String()}
}

// setDigest sets the rule of later sends.
func (f *handlers) setDigest(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Window   string   `json:"window"`
		Max      int      `json:"max"`
		Key      string   `json:"key"`
		Channels []string `json:"channels"`
		Choice   []string `json:"choice"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	rule, err := notify.NewDigestRule(body.Window, body.Max, body.Key, body.Channels, body.Choice...)
	if err != nil {
		return err
	}
	ref := kindOf(r)
	k, err := f.Store.Kind(r.Context(), ref)
	if err != nil {
		return missing(err, "Notification", ref.KindID)
	}
	if k.Critical {
		return fault.New(fault.Conflict, "The kind %q is critical: its notifications are never collected in digests",
			ref.KindID)
	}
	err = f.Store.SetDigestRule(r.Context(), ref, rule)
	return web.Answer(w, http.StatusOK, presentDigest(&notify.Kind{DigestRule: rule}),
		missing(err, "Notification", ref.KindID))
}

// deleteDigest lets later notifications be delivered one by one. Those that are collected still come in their digest.
func (f *handlers) deleteDigest(w http.ResponseWriter, r *http.Request) error {
	ref := kindOf(r)
	return web.Answer(w, http.StatusNoContent, nil,
		missing(f.Store.SetDigestRule(r.Context(), ref, nil), "Notification", ref.KindID))
}
