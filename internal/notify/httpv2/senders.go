package httpv2

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify"
)

type senderBody struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Links links  `json:"_links"`
}

func presentSender(s notify.Sender) senderBody {
	self := "/senders/" + s.ID
	return senderBody{s.ID, s.Name, linksOf("self", self, "campaign_types", self+"/campaign_types", "campaigns",
		self+"/campaigns")}
}

// sender returns the caller's sender of the path.
func (f *handlers) sender(r *http.Request) (notify.Sender, error) {
	id := web.Param(r, "sender")
	s, err := f.Store.Sender(r.Context(), id)
	return s, missing(owned(err, s.ClientID, caller(r).ClientID), "Sender", id)
}

// senderChange is the body of POST and PUT; an omitted name is nil.
type senderChange struct {
	Name *string `json:"name"`
}

func (c *senderChange) apply(s *notify.Sender) error {
	web.Set(&s.Name, c.Name)
	if s.Name == "" {
		return fault.New(fault.Unprocessable, "missing sender name")
	}
	return nil
}

// createSender responds with the existing sender of that name, if any.
func (f *handlers) createSender(r *http.Request, body *senderChange) (notify.Sender, error) {
	s := notify.Sender{ID: uuid.NewString(), ClientID: caller(r).ClientID}
	if err := body.apply(&s); err != nil {
		return s, err
	}
	return f.Store.CreateSender(r.Context(), s)
}

func (f *handlers) listSenders(w http.ResponseWriter, r *http.Request) error {
	list, err := f.Store.Senders(r.Context(), caller(r).ClientID)
	return web.Answer(w, http.StatusOK,
		map[string]any{"senders": presentAll(list, presentSender), "_links": linksOf("self", "/senders")}, err)
}

func (f *handlers) updateSender(r *http.Request, body *senderChange) (notify.Sender, error) {
	s, err := f.sender(r)
	if err != nil || body.Name == nil {
		return s, err
	}
	if err := body.apply(&s); err != nil {
		return s, err
	}
	err = f.Store.UpdateSender(r.Context(), s)
	if errors.Is(err, notify.ErrConflict) {
		return s, fault.Wrap(err, fault.Unprocessable, "Sender with name %q already exists", s.Name)
	}
	return s, missing(err, "Sender", s.ID)
}

func (f *handlers) deleteSender(ctx context.Context, s notify.Sender) error {
	return missing(f.Store.DeleteSender(ctx, s.ID), "Sender", s.ID)
}
