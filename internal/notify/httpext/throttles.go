package httpext

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify"
)

// registerThrottles adds the routes that say how many notifications of a kind a recipient gets.
func (f *handlers) registerThrottles(g *web.Group) {
	manager := web.Scope(scopeManage)
	g.Handle("GET", "/kinds/{kind}/throttle", web.Scope(scopeManage, scopeAdmin),
		f.showOfKind(func(k *notify.Kind) any { return presentThrottle(k) }))
	g.Handle("PUT", "/kinds/{kind}/throttle", manager, f.setThrottle)
	g.Handle("DELETE", "/kinds/{kind}/throttle", manager, f.deleteThrottle)
}

// throttleBody has the rule, nil for a kind that has none, and what it says in words.
type throttleBody struct {
	Throttle    *notify.ThrottleRule `json:"throttle"`
	Description string               `json:"description"`
}

func presentThrottle(k *notify.Kind) throttleBody {
	switch {
	case k.ThrottleRule == nil:
		return throttleBody{Description: "not limited"}
	case k.Critical:
		return throttleBody{k.ThrottleRule, "not limited, because the kind is critical"}
	}
	return throttleBody{k.ThrottleRule, k.ThrottleRule.String()}
}

// setThrottle sets the rule of later sends.
func (f *handlers) setThrottle(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Limit    int      `json:"limit"`
		Window   string   `json:"window"`
		Over     string   `json:"over"`
		Channels []string `json:"channels"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	rule, err := notify.NewThrottleRule(body.Limit, body.Window, body.Over, body.Channels)
	if err != nil {
		return err
	}
	ref := kindOf(r)
	k, err := f.Store.Kind(r.Context(), ref)
	if err != nil {
		return missing(err, "Notification", ref.KindID)
	}
	if k.Critical {
		return fault.New(fault.Conflict, "The kind %q is critical: its notifications are never limited", ref.KindID)
	}
	err = f.Store.SetThrottleRule(r.Context(), ref, rule)
	return web.Answer(w, http.StatusOK, presentThrottle(&notify.Kind{ThrottleRule: rule}),
		missing(err, "Notification", ref.KindID))
}

// deleteThrottle lets later notifications be sent without a limit.
func (f *handlers) deleteThrottle(w http.ResponseWriter, r *http.Request) error {
	ref := kindOf(r)
	return web.Answer(w, http.StatusNoContent, nil,
		missing(f.Store.SetThrottleRule(r.Context(), ref, nil), "Notification", ref.KindID))
}
