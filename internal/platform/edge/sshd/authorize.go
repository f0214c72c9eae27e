package sshd

import (
	"context"
	"net"
	"strconv"
	"strings"

	"ingot/internal/base/fault"
)

// Session is the result of an Authorizer for an accepted client.
type Session struct {
	UserGUID string
	UserName string

	AppGUID     string
	ProcessGUID string
	Index       int
	// InstanceID is the engine's id of the instance.
	InstanceID string
	// Env is added to the environment of the instance, for shells and commands.
	Env []string
}

// Authorizer decides who may log in.
type Authorizer interface {
	// Authorize redeems a one-time code and returns the session of its owner for the
	// instance index of the process.
	//
	// A refusal is one of fault.Unauthenticated, Forbidden, NotFound, FeatureDisabled and
	// Unprocessable. Then the session has what is known so far, for the audit event. The
	// texts of the last two are shown to the client, so they are only for users who are
	// authenticated and may see the app. Any other error means that no decision was
	// possible; it does not count as a guess.
	Authorize(ctx context.Context, code, processGUID string, index int, remote net.Addr) (Session, error)
}

// refused reports whether an error of an Authorizer is a decision.
func refused(err error) bool {
	switch fault.CodeOf(err) {
	case fault.Unauthenticated, fault.Forbidden, fault.NotFound, fault.FeatureDisabled, fault.Unprocessable:
		return true
	}
	return false
}

// The parts of a user name: cf:PROCESS-GUID/INDEX.
const (
	userPrefix  = "cf:"
	maxGUID     = 128
	maxIndexLen = 6
)

// parseUser parses a user name.
func parseUser(name string) (processGUID string, index int, ok bool) {
	rest, ok := strings.CutPrefix(name, userPrefix)
	guid, number, found := strings.Cut(rest, "/")
	if !ok || !found || guid == "" || len(guid) > maxGUID || number == "" || len(number) > maxIndexLen {
		return "", 0, false
	}
	if strings.ContainsFunc(guid, notInGUID) || strings.ContainsFunc(number, notDigit) {
		return "", 0, false
	}
	index, err := strconv.Atoi(number)
	return guid, index, err == nil
}

func notDigit(c rune) bool { return c < '0' || c > '9' }

func notInGUID(c rune) bool {
	return notDigit(c) && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_'
}
