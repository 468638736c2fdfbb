//! The grammar's node kinds and fields, under our names.

use std::num::NonZeroU16;
use std::sync::OnceLock;

use crate::tree::{Flat, Vocabulary};

macro_rules! kinds {
    ($($variant:ident $name:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Kind { $($variant,)* Operator, Error, Other }
        const KINDS: &[(&str, Kind)] = &[$(($name, Kind::$variant),)*];
    };
}

kinds! {
    Program "program", Argument "argument", Arguments "arguments", Binary "binary_operator", Braced "braced_expression",
    Call "call", Complex "complex", Extract "extract_operator", Float "float", For "for_statement",
    Function "function_definition", If "if_statement", Integer "integer", Na "na", Namespace "namespace_operator",
    Parameter "parameter", Parameters "parameters", Parenthesized "parenthesized_expression",
    Repeat "repeat_statement", String "string", StringContent "string_content", Subset "subset", Subset2 "subset2",
    Unary "unary_operator", While "while_statement", Break "break", Comment "comment", DotDotI "dot_dot_i",
    Dots "dots", Escape "escape_sequence", False "false", Identifier "identifier", Inf "inf", Nan "nan", Next "next",
    Null "null", StringOpen "string_open", StringClose "string_close", True "true",
}

macro_rules! fields {
    ($($variant:ident $name:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Field { $($variant,)* Nothing }
        const FIELDS: &[(&str, Field)] = &[$(($name, Field::$variant),)*];
    };
}

fields! {
    Alternative "alternative", Argument "argument", Arguments "arguments", Body "body", Condition "condition",
    Consequence "consequence", Default "default", Function "function", Left "lhs", Name "name", Operator "operator",
    Parameter "parameter", Parameters "parameters", Right "rhs", Sequence "sequence", Value "value",
    Variable "variable", Content "content",
}

const OPERATORS: &[&str] = &[
    "!=", "&", "&&", "*", "**", "+", "-", "->", "->>", "/", ":", ":=", "<", "<-", "<<-", "<=", "=", "==",
    ">", ">=", "?", "^", "special", "|", "|>", "||", "~", "!",
];

pub(super) struct Words {
    kinds: Vec<Option<Kind>>,
    fields: Vec<Field>,
}

impl Vocabulary for Words {
    type Kind = Kind;
    type Field = Field;

    fn kind(&self, id: u16) -> Option<Kind> {
        if id == u16::MAX {
            return Some(Kind::Error);
        }
        self.kinds.get(usize::from(id)).copied().flatten()
    }

    fn field(&self, id: Option<NonZeroU16>) -> Field {
        id.and_then(|id| self.fields.get(usize::from(id.get()))).copied().unwrap_or(Field::Nothing)
    }
}

pub(super) type Tree = Flat<Words>;

pub(super) fn grammar() -> tree_sitter::Language {
    tree_sitter_r::LANGUAGE.into()
}

pub(super) fn words() -> &'static Words {
    static WORDS: OnceLock<Words> = OnceLock::new();
    WORDS.get_or_init(|| {
        let grammar = grammar();
        let kinds = (0..grammar.node_kind_count() as u16)
            .map(|id| {
                let name = grammar.node_kind_for_id(id)?;
                if !grammar.node_kind_is_named(id) {
                    return OPERATORS.contains(&name).then_some(Kind::Operator);
                }
                match name {
                    "comma" | "string_open" | "string_close" => None,
                    _ => Some(
                        KINDS.iter().find(|(known, _)| *known == name).map_or(Kind::Other, |(_, kind)| *kind),
                    ),
                }
            })
            .collect();
        let fields = (0..=grammar.field_count() as u16)
            .map(|id| {
                let name = grammar.field_name_for_id(id).unwrap_or("");
                FIELDS.iter().find(|(known, _)| *known == name).map_or(Field::Nothing, |(_, field)| *field)
            })
            .collect();
        Words { kinds, fields }
    })
}
