package actions

import (
	"context"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

// Count returns an audience of a client with its names, and how many recipients it has. It
// stops after about most of them; more reports that there are others.
// Subscriptions are not considered: they depend on the kind.
func (s *Service) Count(ctx context.Context, client string, a notify.Audience, most int) (resolved notify.Audience,
	recipients int, more bool, err error) {
	switch a.Type {
	case notify.ToEmail:
		if !notify.UsableAddress(a.ID) {
			return a, 0, false, fault.New(fault.Unprocessable, "%q is not a valid email address", a.ID)
		}
		return a, 1, false, nil
	case notify.ToUser:
		if _, err := s.AddressOf(ctx, a.ID); err != nil {
			return a, 0, false, err
		}
		return a, 1, false, nil
	case notify.ToTopic:
		t, err := s.o.Store.Topic(ctx, notify.TopicRef{ClientID: client, Name: a.ID})
		return a, t.Subscribers, false, NoTopic(err, a.ID)
	}
	if a, err = s.o.Directory.Resolve(ctx, a); err != nil {
		return a, 0, false, err
	}
	reader := Reader{Directory: s.o.Directory, Page: atOnce}
	members, _, done, err := reader.Read(ctx, []notify.Audience{a}, notify.Cursor{}, most)
	return a, len(members), !done, err
}

// AddressOf returns the address of a user, "" if the user has none.
func (s *Service) AddressOf(ctx context.Context, userID string) (string, error) {
	found, err := s.o.Directory.Emails(ctx, []string{userID})
	if err != nil {
		return "", err
	}
	email, ok := found[userID]
	if !ok {
		return "", fault.New(fault.NotFound, "The user %q could not be found", userID)
	}
	return email, nil
}

// resolve checks that an audience of a client exists, and fills in its names.
func (s *Service) resolve(ctx context.Context, client string, a notify.Audience) (notify.Audience, error) {
	if a.Type != notify.ToTopic {
		return s.o.Directory.Resolve(ctx, a)
	}
	_, err := s.o.Store.Topic(ctx, notify.TopicRef{ClientID: client, Name: a.ID})
	return a, NoTopic(err, a.ID)
}
