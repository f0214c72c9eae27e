package sshd

import (
	"context"
	"net"
	"strconv"
	"strings"

	"ingot/internal/base/fault"
)

// Session is what an Authorizer says of somebody who may come in.
type Session struct {
	UserGUID string
	UserName string

	AppGUID     string
	ProcessGUID string
	Index       int
	// InstanceID is the engine's name of the instance.
	InstanceID string
	// Env is added to the environment of the instance, for shells and commands.
	Env []string
}

// Authorizer says who may come in.
type Authorizer interface {
	// Authorize takes a one-time code, which is then used up, and says where
	// its owner is let into: the instance index of the process.
	//
	// A refusal is one of fault.Unauthenticated, Forbidden, NotFound,
	// FeatureDisabled and Unprocessable. Then the session tells what was found
	// out before, for the audit event. The texts of the last two are shown to
	// the client, so they are for those only who are known and may see the app.
	// Any other error means that nobody knows; it is not counted as a guess.
	Authorize(ctx context.Context, code, processGUID string, index int, remote net.Addr) (Session, error)
}

// refused tells whether an error of an Authorizer is a decision.
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

// parseUser takes a user name apart.
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
