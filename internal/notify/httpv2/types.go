package httpv2

import (
	"errors"
	"net/http"

	"github.com/google/uuid"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify"
)

type typeBody struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Critical    bool   `json:"critical"`
	TemplateID  string `json:"template_id"`
	Links       links  `json:"_links"`
}

func presentType(t notify.CampaignType) typeBody {
	return typeBody{t.ID, t.Name, t.Description, t.Critical, t.TemplateID, linksOf("self", "/campaign_types/"+t.ID)}
}

// typeOf returns the caller's campaign type of the path.
func (f *handlers) typeOf(r *http.Request) (notify.CampaignType, error) {
	id := web.Param(r, "type")
	t, err := f.Store.CampaignType(r.Context(), id)
	return t, missing(owned(err, t.ClientID, caller(r).ClientID), "Campaign type", id)
}

// ownTemplate checks that a template belongs to the caller. The default belongs
// to no client and is used by omitting the id.
func (f *handlers) ownTemplate(r *http.Request, id string) error {
	if id == "" {
		return nil
	}
	t, err := f.Store.Template(r.Context(), id)
	return missing(owned(err, t.Owner, caller(r).ClientID), "Template", id)
}

// typeChange is the body of POST and PUT; omitted fields are nil.
type typeChange struct {
	Name        *string `json:"name"`
	Description *string `json:"description"`
	Critical    *bool   `json:"critical"`
	TemplateID  *string `json:"template_id"`
}

func (c typeChange) apply(t notify.CampaignType) notify.CampaignType {
	set(&t.Name, c.Name)
	set(&t.Description, c.Description)
	set(&t.Critical, c.Critical)
	set(&t.TemplateID, c.TemplateID)
	return t
}

// set copies a value if it was given.
func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func (f *handlers) createType(w http.ResponseWriter, r *http.Request) error {
	var body typeChange
	if _, err := read(w, r, &body, invalidJSON); err != nil {
		return err
	}
	s, err := f.sender(r)
	if err != nil {
		return err
	}
	t := body.apply(notify.CampaignType{ID: uuid.NewString(), SenderID: s.ID, ClientID: s.ClientID})
	switch {
	case t.Name == "":
		return fault.New(fault.Unprocessable, "missing campaign type name")
	case t.Description == "":
		return fault.New(fault.Unprocessable, "missing campaign type description")
	case t.Critical && !mayCritical(r):
		return fault.New(fault.Forbidden, "You do not have permission to create critical campaign types")
	}
	if err := f.ownTemplate(r, t.TemplateID); err != nil {
		return err
	}
	if t, err = f.Store.CreateCampaignType(r.Context(), t); err != nil {
		return missing(err, "Sender", s.ID)
	}
	web.WriteJSON(w, http.StatusCreated, presentType(t))
	return nil
}

func (f *handlers) listTypes(w http.ResponseWriter, r *http.Request) error {
	s, err := f.sender(r)
	if fault.Is(err, fault.NotFound) {
		return fault.Wrap(err, fault.NotFound, "sender not found")
	}
	if err != nil {
		return err
	}
	list, err := f.Store.CampaignTypes(r.Context(), s.ID)
	if err != nil {
		return err
	}
	out := make([]typeBody, 0, len(list))
	for _, t := range list {
		out = append(out, presentType(t))
	}
	self := "/senders/" + s.ID
	web.WriteJSON(w, http.StatusOK, map[string]any{"campaign_types": out, "_links": linksOf("self", self+"/campaign_types",
		"sender", self)})
	return nil
}

func (f *handlers) showType(w http.ResponseWriter, r *http.Request) error {
	t, err := f.typeOf(r)
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, presentType(t))
	return nil
}

func (f *handlers) updateType(w http.ResponseWriter, r *http.Request) error {
	var body typeChange
	if _, err := read(w, r, &body, invalidJSON); err != nil {
		return err
	}
	t, err := f.typeOf(r)
	if err != nil {
		return err
	}
	t = body.apply(t)
	var problems []string
	if t.Name == "" {
		problems = append(problems, "name cannot be blank")
	}
	if t.Description == "" {
		problems = append(problems, "description cannot be blank")
	}
	if err := fault.Invalid(problems...); err != nil {
		return err
	}
	if t.Critical && !mayCritical(r) {
		return fault.New(fault.Forbidden, "Forbidden: cannot update campaign type with critical flag set to true")
	}
	if err := f.ownTemplate(r, t.TemplateID); err != nil {
		return err
	}
	err = f.Store.UpdateCampaignType(r.Context(), t)
	if errors.Is(err, notify.ErrConflict) {
		return fault.Wrap(err, fault.Unprocessable, "Campaign type with name %q already exists", t.Name)
	}
	if err != nil {
		return missing(err, "Campaign type", t.ID)
	}
	web.WriteJSON(w, http.StatusOK, presentType(t))
	return nil
}

func (f *handlers) deleteType(w http.ResponseWriter, r *http.Request) error {
	t, err := f.typeOf(r)
	if err != nil {
		return err
	}
	if err := f.Store.DeleteCampaignType(r.Context(), t.ID); err != nil {
		return missing(err, "Campaign type", t.ID)
	}
	return noContent(w)
}

// unsubscribe unsubscribes a user from a campaign type, or subscribes again. A
// user may do so for itself, a client with the admin scope for any user.
func (f *handlers) unsubscribe(off bool) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		claims, user := caller(r), web.Param(r, "user")
		allowed := claims.HasAny(scopePrefsAdmin)
		if claims.IsUser() {
			allowed = claims.UserID == user && claims.HasAny(scopePrefsWrite)
		}
		if !allowed {
			return web.Insufficient(scopePrefsWrite, scopePrefsAdmin)
		}
		id := web.Param(r, "type")
		t, err := f.Store.CampaignType(r.Context(), id)
		if err != nil {
			return missing(err, "Campaign type", id)
		}
		if off && t.Critical {
			return fault.New(fault.Forbidden, "Campaign type %q cannot be unsubscribed from", t.ID)
		}
		known, err := f.Directory.Emails(r.Context(), []string{user})
		if err != nil {
			return err
		}
		if _, found := known[user]; !found {
			return fault.New(fault.NotFound, "User %q not found", user)
		}
		err = f.Store.ChangePreferences(r.Context(), user, notify.PreferenceChange{
			Kinds: map[notify.KindRef]bool{{KindID: t.ID}: !off},
		})
		if err != nil {
			return err
		}
		return noContent(w)
	}
}
