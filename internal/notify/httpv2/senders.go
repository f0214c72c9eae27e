package httpv2

import (
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

// createSender responds with the existing sender of that name, if any.
func (f *handlers) createSender(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Name string `json:"name"`
	}
	if _, err := read(w, r, &body, invalidJSON); err != nil {
		return err
	}
	if body.Name == "" {
		return fault.New(fault.Unprocessable, "missing sender name")
	}
	s, err := f.Store.CreateSender(r.Context(), notify.Sender{ID: uuid.NewString(), ClientID: caller(r).ClientID,
		Name: body.Name})
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusCreated, presentSender(s))
	return nil
}

func (f *handlers) listSenders(w http.ResponseWriter, r *http.Request) error {
	list, err := f.Store.Senders(r.Context(), caller(r).ClientID)
	if err != nil {
		return err
	}
	out := make([]senderBody, 0, len(list))
	for _, s := range list {
		out = append(out, presentSender(s))
	}
	web.WriteJSON(w, http.StatusOK, map[string]any{"senders": out, "_links": linksOf("self", "/senders")})
	return nil
}

func (f *handlers) showSender(w http.ResponseWriter, r *http.Request) error {
	s, err := f.sender(r)
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, presentSender(s))
	return nil
}

func (f *handlers) updateSender(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Name *string `json:"name"`
	}
	if _, err := read(w, r, &body, invalidJSON); err != nil {
		return err
	}
	s, err := f.sender(r)
	if err != nil {
		return err
	}
	if body.Name != nil {
		if *body.Name == "" {
			return fault.New(fault.Unprocessable, "missing sender name")
		}
		s.Name = *body.Name
		err := f.Store.UpdateSender(r.Context(), s)
		if errors.Is(err, notify.ErrConflict) {
			return fault.Wrap(err, fault.Unprocessable, "Sender with name %q already exists", s.Name)
		}
		if err != nil {
			return missing(err, "Sender", s.ID)
		}
	}
	web.WriteJSON(w, http.StatusOK, presentSender(s))
	return nil
}

func (f *handlers) deleteSender(w http.ResponseWriter, r *http.Request) error {
	s, err := f.sender(r)
	if err != nil {
		return err
	}
	if err := f.Store.DeleteSender(r.Context(), s.ID); err != nil {
		return missing(err, "Sender", s.ID)
	}
	return noContent(w)
}
