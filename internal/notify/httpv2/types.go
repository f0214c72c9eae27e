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

func (c *typeChange) apply(t notify.CampaignType) notify.CampaignType {
	web.Set(&t.Name, c.Name)
	web.Set(&t.Description, c.Description)
	web.Set(&t.Critical, c.Critical)
	web.Set(&t.TemplateID, c.TemplateID)
	return t
}

func (f *handlers) createType(r *http.Request, body *typeChange) (t notify.CampaignType, err error) {
	s, err := f.sender(r)
	if err != nil {
		return t, err
	}
	t = body.apply(notify.CampaignType{ID: uuid.NewString(), SenderID: s.ID, ClientID: s.ClientID})
	switch {
	case t.Name == "":
		return t, fault.New(fault.Unprocessable, "missing campaign type name")
	case t.Description == "":
		return t, fault.New(fault.Unprocessable, "missing campaign type description")
	case t.Critical && !mayCritical(r):
		return t, fault.New(fault.Forbidden, "You do not have permission to create critical campaign types")
	}
	if err := f.ownTemplate(r, t.TemplateID); err != nil {
		return t, err
	}
	t, err = f.Store.CreateCampaignType(r.Context(), t)
	return t, missing(err, "Sender", s.ID)
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
	self := "/senders/" + s.ID
	return web.Answer(w, http.StatusOK, map[string]any{"campaign_types": presentAll(list, presentType),
		"_links": linksOf("self", self+"/campaign_types", "sender", self)}, err)
}

func (f *handlers) updateType(r *http.Request, body *typeChange) (notify.CampaignType, error) {
	t, err := f.typeOf(r)
	if err != nil {
		return t, err
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
		return t, err
	}
	if t.Critical && !mayCritical(r) {
		return t, fault.New(fault.Forbidden, "Forbidden: cannot update campaign type with critical flag set to true")
	}
	if err := f.ownTemplate(r, t.TemplateID); err != nil {
		return t, err
	}
	err = f.Store.UpdateCampaignType(r.Context(), t)
	if errors.Is(err, notify.ErrConflict) {
		return t, fault.Wrap(err, fault.Unprocessable, "Campaign type with name %q already exists", t.Name)
	}
	return t, missing(err, "Campaign type", t.ID)
}

func (f *handlers) deleteType(ctx context.Context, t notify.CampaignType) error {
	return missing(f.Store.DeleteCampaignType(ctx, t.ID), "Campaign type", t.ID)
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
		return web.Answer(w, http.StatusNoContent, nil, err)
	}
}
