#!/usr/bin/env bash
# Previews the manifests that a pull request changes, and keeps one comment with the result. action.yml says what the variables mean.
# Names of files, and what kubectl prints, come from the pull request or the cluster: they are data here, and nothing is evaluated.
set -euf -o pipefail

fail() {
	echo "::error::$1"
	exit 1
}

# quoted writes a value for a flag of kubectl that splits its values at commas.
quoted() { printf '"%s"' "${1//\"/\"\"}"; }

# inside reports whether a file is a regular one of the workspace, and below one of the paths. A link could lead to the job's credentials.
inside() {
	local real path
	real=$(realpath --quiet -- "$workspace/$1") && [[ $real == "$workspace/$1" && -f $real ]] || return 1
	while IFS= read -r path; do
		path=$(realpath --quiet --canonicalize-missing -- "$workspace/$path")
		[[ $path == "$workspace" || $real == "$path" || $real == "$path"/* ]] && return 0
	done < <(grep -v '^[[:space:]]*$' <<<"$CONFREV_PATHS")
	return 1
}

# changed adds the manifests that the pull request changes to the arguments.
changed() {
	local list encoded file
	list=$(gh api --paginate "repos/$GITHUB_REPOSITORY/pulls/$CONFREV_PULL_REQUEST/files?per_page=100" \
		--jq '.[] | select(.status != "removed") | .filename | select(test("[.](ya?ml|json)$")) | @base64')
	while IFS= read -r encoded; do
		# A name may have any character except NUL, and a command substitution would lose line feeds at its end.
		IFS= read -r -d '' file < <(base64 --decode <<<"$encoded") || true
		if [[ -n $file ]] && inside "$file"; then
			arguments+=("--filename=$(quoted "$workspace/$file")")
		fi
	done <<<"$list"
}

# preview writes the page, and sets the status.
preview() {
	if [[ ${#arguments[@]} == 0 ]]; then
		status=0
		printf '## This edit restarts no workload\n\nThe pull request changes no manifests below the given paths.\n' >"$page"
		return
	fi
	status=0
	env --unset=GH_TOKEN kubectl confrev preview "${flags[@]}" "${arguments[@]}" --exit-code --output=markdown >"$page" 2>"$errors" || status=$?
	# A line of a message could look like a command for the runner.
	resume=$(od --address-radix=n --read-bytes=16 --format=x1 /dev/urandom | tr --delete ' \n')
	echo "::stop-commands::$resume"
	cat "$errors"
	echo "::$resume::"
	if [[ ! $status =~ ^[034]$ ]]; then
		printf '## The preview failed\n\nThe log of the job says why.\n' >"$page"
	fi
}

# comment updates the comment of an earlier run, or makes one if there is something to say.
comment() {
	local found id="" number login line
	echo "$marker" >"$body"
	# A code host refuses comments of more than 65,536 characters.
	if [[ $(wc --bytes <"$page") -gt 60000 ]]; then
		head --bytes=60000 "$page" | sed '$d' >>"$body"
		printf '\nThe list is too long for a comment. The summary of the job has all of it.\n' >>"$body"
	else
		cat "$page" >>"$body"
	fi
	found=$(gh api --paginate "repos/$GITHUB_REPOSITORY/issues/$CONFREV_PULL_REQUEST/comments?per_page=100" \
		--jq '.[] | select(.body | startswith("<!-- confrev preview")) | "\(.id) \(.user.login) \(.body | split("\n")[0])"')
	while read -r number login line; do
		# Anyone may write a comment that begins like this one.
		if [[ $number =~ ^[0-9]+$ && $login == "$CONFREV_AUTHOR" && ${line%$'\r'} == "$marker" ]]; then
			id=$number
		fi
	done <<<"$found"
	if [[ -n $id ]]; then
		gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id" --field "body=@$body"
	elif [[ $status != 0 ]]; then
		gh api --silent --method POST "repos/$GITHUB_REPOSITORY/issues/$CONFREV_PULL_REQUEST/comments" --field "body=@$body"
	fi
}

[[ $CONFREV_PULL_REQUEST =~ ^[0-9]+$ ]] || fail "this action is for the event pull_request"
[[ $CONFREV_NAME =~ ^[A-Za-z0-9._-]*$ ]] || fail "name: use letters, digits, dots, dashes and underscores"
[[ -n $CONFREV_PATHS || -n $CONFREV_KUSTOMIZE ]] || fail "set paths or kustomize"
[[ -z $CONFREV_PATHS || -z $CONFREV_KUSTOMIZE ]] || fail "set either paths or kustomize"

workspace=$(realpath -- "$GITHUB_WORKSPACE")
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
page=$work/page.md body=$work/body.md errors=$work/errors
marker="<!-- confrev preview${CONFREV_NAME:+ $CONFREV_NAME} -->"

flags=()
[[ -z $CONFREV_NAMESPACE ]] || flags+=("--namespace=$CONFREV_NAMESPACE")
[[ -z $CONFREV_CONTEXT ]] || flags+=("--context=$CONFREV_CONTEXT")
[[ $CONFREV_SERVER_SIDE != true ]] || flags+=(--server-side)

arguments=()
if [[ -n $CONFREV_KUSTOMIZE ]]; then
	arguments+=("--kustomize=$workspace/$CONFREV_KUSTOMIZE")
else
	changed
fi
preview
cat "$page" >>"$GITHUB_STEP_SUMMARY"
if [[ $CONFREV_COMMENT == true ]]; then
	comment
fi
[[ $status =~ ^[034]$ ]] || fail "kubectl confrev preview ended with status $status"
echo "status=$status" >>"$GITHUB_OUTPUT"
for failing in $CONFREV_FAIL_ON; do
	[[ $failing != "$status" ]] || fail "the preview ended with status $status (fail-on)"
done
