package httpext

import (
	"net/http"

	"ingot/internal/base/web"
	"ingot/internal/notify"
)

// registerChannels adds the routes that say how the notifications of a kind reach users. The other APIs do not show
// it.
func (f *handlers) registerChannels(g *web.Group) {
	manager := web.Scope(scopeManage)
	g.Handle("GET", "/kinds/{kind}/channels", manager, f.showChannels(f.kind))
	g.Handle("PUT", "/kinds/{kind}/channels", manager, f.setChannels(f.kind))
	writer := web.Scope(scopeWrite)
	g.Handle("GET", "/campaign_types/{type}/channels", writer, f.showChannels(f.campaignType))
	g.Handle("PUT", "/campaign_types/{type}/channels", writer, f.setChannels(f.campaignType))
}

// channelsOf finds what a path names, and its channels.
type channelsOf func(r *http.Request) (notify.KindRef, notify.Channels, error)

func (f *handlers) kind(r *http.Request) (notify.KindRef, notify.Channels, error) {
	ref := kindOf(r)
	k, err := f.Store.Kind(r.Context(), ref)
	return ref, k.Travels(), missing(err, "Notification", ref.KindID)
}

func (f *handlers) campaignType(r *http.Request) (notify.KindRef, notify.Channels, error) {
	ref := notify.KindRef{KindID: web.Param(r, "type")}
	t, err := f.Store.CampaignType(r.Context(), ref.KindID)
	if err == nil && t.ClientID != client(r) {
		err = notify.ErrNotFound
	}
	return ref, t.Channels, missing(err, "Campaign type", ref.KindID)
}

type channelsBody struct {
	Channels []string `json:"channels"`
}

func (f *handlers) showChannels(find channelsOf) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		_, c, err := find(r)
		return web.Answer(w, http.StatusOK, channelsBody{c.Names()}, err)
	}
}

// setChannels sets the channels of later sends.
func (f *handlers) setChannels(find channelsOf) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var body channelsBody
		if err := web.DecodeStrict(r, &body); err != nil {
			return err
		}
		c, err := notify.ParseChannels(body.Channels)
		if err != nil {
			return err
		}
		ref, _, err := find(r)
		if err != nil {
			return err
		}
		if err := f.withoutWorkflow(r, ref); err != nil {
			return err
		}
		if err := f.lacking(r, c); err != nil {
			return err
		}
		if err := f.Store.SetChannels(r.Context(), ref, c); err != nil {
			return missing(err, "Notification", ref.KindID)
		}
		return web.Answer(w, http.StatusOK, channelsBody{c.Names()}, nil)
	}
}
