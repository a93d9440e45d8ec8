"""The form of one's own password."""

from wtforms import Field, Form, PasswordField
from wtforms.validators import StopValidation

from queue_core.passwords import FEWEST_CHARACTERS, MOST_CHARACTERS


class PasswordForm(Form):
    """`present`, and the new one twice: `new` and `again`. None of them is ever shown again."""

    present = PasswordField()
    new = PasswordField()
    again = PasswordField()

    def validate_present(self, field: Field) -> None:
        """Whoever sits down at an open session does not know it."""
        if not field.data:
            raise StopValidation("Type your present password.")

    def validate_new(self, field: Field) -> None:
        """Long enough, and no longer than what is hashed."""
        if not FEWEST_CHARACTERS <= len(field.data or "") <= MOST_CHARACTERS:
            raise StopValidation(
                f"A password has {FEWEST_CHARACTERS} to {MOST_CHARACTERS} characters."
            )

    def validate_again(self, field: Field) -> None:
        """Typed twice, since nobody sees what they type."""
        if field.data != self.new.data:
            raise StopValidation("This is not the same as the one above.")
